//! A future on one thread, with nothing but `std`: enough for the model, whose futures are
//! always ready, and for adapters that wake their caller from a thread of their own.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on the calling thread, which sleeps while the future waits.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_future_that_is_woken_by_another_thread_ends() {
        let woken = Arc::new(AtomicBool::new(false));
        let mut started = false;
        let value = block_on(core::future::poll_fn(|cx| {
            if woken.load(Ordering::SeqCst) {
                return Poll::Ready(7);
            }
            if !started {
                started = true;
                let (woken, waker) = (woken.clone(), cx.waker().clone());
                thread::spawn(move || {
                    thread::sleep(core::time::Duration::from_millis(20));
                    woken.store(true, Ordering::SeqCst);
                    waker.wake();
                });
            }
            Poll::Pending
        }));
        assert_eq!(value, 7);
    }
}
