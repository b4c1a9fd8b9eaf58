//! Counts a file, for instruction counts under valgrind: `count_file <encoding> <file> <times>`.

use std::{env, fs, process};
use tokenctx::bpe::{Encoding, fix_hashes};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [encoding, path, times] = arguments.as_slice() else {
        eprintln!("usage: count_file <encoding> <file> <times>");
        process::exit(2);
    };
    fix_hashes();
    let encoding = Encoding::named(encoding).expect("a known encoding");
    let text = fs::read_to_string(path).expect("a file of UTF-8");
    encoding.preload(); // what is built once is no part of a count
    let times: usize = times.parse().expect("a number");
    let tokens: u64 = (0..times).map(|_| encoding.count(&text)).sum();
    println!("{tokens}");
}
