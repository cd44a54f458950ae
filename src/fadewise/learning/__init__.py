"""Model, local SGD, aggregation. torch lives here and in `simulation`, and nowhere else.

The settings (`models`, `training`) can be read without torch: `plan` reads them too.
"""
