"""The page: `qgt serve`, for people who plan, count and read calls in a browser.

Here are routes, templates, what is stored of each run and the queue of decodes: a route reads a form, calls the lab and
shows what it returns, and whatever the command would need too belongs to the lab. Only this room needs FastAPI. Read
`app` and `middleware`, `state` (what routes share), `store` and `jobs`, then the pages in the order of the work:
`start`, `planning`, `runs`, `counting`, `calls`, `follow_up`.
"""
