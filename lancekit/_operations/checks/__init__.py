"""What is looked at before an operation or a commit may go on."""
