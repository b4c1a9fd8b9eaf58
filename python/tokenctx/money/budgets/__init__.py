"""Token and money budgets: reserved before a call, settled with its bill.

What a call may take at most is reserved at once in all budgets that it falls under, or in none:
the `high` of its estimate and the output that its tenant and model usually give. The bill puts the
true number in its place, and a failure gives it back; of a caller that dies it is booked.
"""

from tokenctx._results.front import front

__getattr__, __dir__ = front(__name__, __file__)
