"""Files: tables of numbers, plain data, plugins, and writes that are complete or do not happen.

This room handles paths, text and formats, and does not use pools or decoders. The meaning of a file belongs to another
room: a design to `model`, a sheet of counts to `lab`. Read `store` (whole writes, folders, locks), then `codec` and
`documents` (plain data, and what notebooks show), `grids` and `tables` (cells and numbers), and `plugins`.
"""
