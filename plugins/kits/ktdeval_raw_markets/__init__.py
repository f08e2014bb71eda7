"""Kit that makes markets from raw tables: the tables in one form, checks, repairs, assembly.

It is a library for plugins, not a plugin: it registers nothing. Of other packages it knows the kit
`ktdeval_tables` alone.
"""
