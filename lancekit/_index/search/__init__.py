"""What scalar indices know of a question; `asked` names what each kind is asked by."""
