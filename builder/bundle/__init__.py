"""Write what a browser loads: content-addressed files, one manifest a model, pages around them."""
