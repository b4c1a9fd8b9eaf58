from tokenctx._results.cost import Cost as Cost
from tokenctx._results.result import CacheForecast as CacheForecast
from tokenctx.money import budgets as budgets
from tokenctx.money import routing as routing
from tokenctx.money.prices import Prices as Prices
