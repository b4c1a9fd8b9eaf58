//! Headers of pictures, documents, sounds and data URLs: any bytes have a size or none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenctx::media::{
    Detail, base64_decoded_len, base64_image_size, decode_base64_head, duration_ms, image_rule,
    image_rule_names, image_size, is_base64, parse_data_url, pdf_length, percent_decode_head,
};

fuzz_target!(|input: &[u8]| {
    let found = image_size(input);
    if let Some((size, _)) = found {
        assert!(size.width_px() > 0 && size.height_px() > 0);
        for name in image_rule_names() {
            let rule = image_rule(name).expect("a rule of the package");
            for detail in [Detail::Low, Detail::High] {
                let _ = rule.tokens(size, detail);
            }
        }
    }
    let _ = pdf_length(input);
    let _ = duration_ms(input, input.len() as u64);
    let text = String::from_utf8_lossy(input);
    let _ = is_base64(&text);
    assert!(decode_base64_head(&text, 64).len() <= 64);
    let _ = base64_decoded_len(&text);
    let _ = base64_image_size(&text);
    assert!(percent_decode_head(&text, 64).len() <= 64);
    if let Some(url) = parse_data_url(&text) {
        let _ = url.image_size();
        let mut bytes = 0;
        url.chunks(|chunk| bytes += chunk.len());
        assert!(bytes <= text.len());
        assert!(url.head(64).len() <= 64);
    }
});
