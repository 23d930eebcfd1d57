//! The `feedline` command.

fn main() {
    std::process::exit(feedline_cli::run(std::env::args_os()));
}
