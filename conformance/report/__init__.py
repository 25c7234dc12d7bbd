"""Rendering a finished run for readers: console, Markdown, HTML and JUnit. Text is made here and nowhere else."""
