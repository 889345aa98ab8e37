"""TODO family label_free"""
