from tokenctx.stores.protocol import PrefixStore as PrefixStore
from tokenctx.stores.redis import RedisPrefixStore as RedisPrefixStore
