"""Arguments of public calls: records of parameters, and checks of single arguments."""
