"""The page: `qgt serve`, for people who plan, count and read calls in a browser.

This room has the routes, the templates, the store of runs and the queue of decodes. A route reads a form, calls the lab
and shows the result; code that the command needs too belongs to the lab. Only this room needs FastAPI. Read `app` and
`middleware`, `state` (what routes share, forms and templates included), `store` and `jobs`, then the pages in the order
of the work: `start`, `planning`, `runs`, `counting`, `calls`.
"""
