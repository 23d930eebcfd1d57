//! The one thread on which all requests of a process are under way.
//!
//! A request waits nearly all of its time, so one thread has hundreds in flight. It is started with the
//! first request. A forked child has no such thread; it starts its own.

use std::sync::OnceLock;
use std::thread;

use tokio::runtime::{Builder, Handle};

/// The thread's handle in each process that a chain of forks has made.
struct Runtime {
    process: u32,
    handle: Handle,
    next: OnceLock<Box<Runtime>>,
}

static FIRST: OnceLock<Box<Runtime>> = OnceLock::new();

/// Where requests are started.
pub(crate) fn handle() -> &'static Handle {
    let process = std::process::id();
    let mut runtime = FIRST.get_or_init(|| start(process));
    while runtime.process != process {
        runtime = runtime.next.get_or_init(|| start(process));
    }
    &runtime.handle
}

fn start(process: u32) -> Box<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a system that can open sockets has an event queue for them");
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name("feedline-store".to_string())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))
        .expect("a system that runs workers can start one thread more");
    Box::new(Runtime { process, handle, next: OnceLock::new() })
}

/// Does something there and waits for it; `None` if it was given up.
pub(crate) fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    handle().spawn(async move {
        let _ = tell.send(work.await);
    });
    told.recv().ok()
}
