"""Files: tables of numbers, plain data, plugins, and writes that are whole or not at all.

Here is what knows of paths, text and formats, and nothing of pools or decoders: what a file *means* belongs to the room
of its meaning, a design to `model`, a sheet of counts to `lab`. Read `store` (whole writes, folders, locks), then
`codec` and `documents` (plain data), `tables` and `grids` (numbers and cells), and `plugins`.
"""
