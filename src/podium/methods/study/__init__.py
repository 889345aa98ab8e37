"""Studies: experiments and metrics rather than methods."""
