"""The page: `qgt serve`, for people who plan, count and read calls in a browser.

Here live routes, templates, what is stored of each run and the queue of decodes. A route reads a form, calls the lab
and shows what it returns; whatever the command would need too belongs to the lab. Only this room needs FastAPI.
"""
