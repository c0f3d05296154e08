"""What pylance's signatures ask of the face: arguments, names, shapes of dictionaries."""
