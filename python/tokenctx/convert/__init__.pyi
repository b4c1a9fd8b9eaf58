from tokenctx._results.estimates import Dialect as Dialect
from tokenctx.convert import mime as mime
from tokenctx.convert.conversion import Conversion as Conversion
from tokenctx.convert.conversion import convert_messages as convert_messages
from tokenctx.convert.conversion import convert_response as convert_response
from tokenctx.convert.notes import ConversionError as ConversionError
from tokenctx.convert.notes import ConversionNote as ConversionNote
from tokenctx.convert.notes import ConversionOptions as ConversionOptions
