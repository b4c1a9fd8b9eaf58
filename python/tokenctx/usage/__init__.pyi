from tokenctx.usage.agents import agent_hints as agent_hints
from tokenctx.usage.normal import SessionUsage as SessionUsage
from tokenctx.usage.normal import Usage as Usage
from tokenctx.usage.normal import UsagePass as UsagePass
from tokenctx.usage.normal import normalize_usage as normalize_usage
from tokenctx.usage.reader import UsageReader as UsageReader
from tokenctx.usage.scaled import ScaledUsage as ScaledUsage
from tokenctx.usage.scaler import ContextWindowScaler as ContextWindowScaler
