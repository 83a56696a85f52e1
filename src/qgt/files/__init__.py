"""Files: tables of numbers, plain data, plugins, and writes that are whole or not at all.

Here lives what knows of paths, text and formats, and nothing of pools or decoders. Everything else builds on it.
What a file *means* belongs to the room of its meaning: a design to `model`, a sheet of counts to `lab`.
"""
