"""Pictures: figures and pages, pure functions of stored results.

This room decides how results look. It measures and decodes nothing, and only the caller writes files. matplotlib and
jinja2 are imported when something is drawn. Read `figures` (for matplotlib) and `pages` (for HTML and for paper).
"""
