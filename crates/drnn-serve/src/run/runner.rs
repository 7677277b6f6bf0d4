//! Threads that run whole sequences in batches: requests that arrive while they are busy form their
//! next batch.

use crate::http::api_error::ApiError;
use crate::limits::options::Options;
use crate::metrics::WorkMetrics;
use drnn_tasks::live::{Element, LiveModel, LiveRun, PreparedSequence};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;

/// The JSON response to a request: `{"model": "..", "answers": [[{..}, ..], ..]}`.
pub type Response = Result<String, ApiError>;

/// Maximum elements of a batch: a larger one is no faster, and delays its first request.
const MAX_BATCH_ELEMENTS: usize = 16_384;

/// The queue of requests for a model. Its threads end when it is dropped.
pub struct Runner {
    queue: Arc<Queue>,
    /// Maximum elements that wait.
    max_waiting: usize,
}

struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    metrics: WorkMetrics,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    elements: usize,
    closed: bool,
}

struct Job {
    sequences: Vec<Vec<Element>>,
    elements: usize,
    since: Instant,
    reply: oneshot::Sender<Response>,
}

impl Runner {
    pub fn start(
        model: &Arc<LiveModel>,
        options: &Options,
        metrics: WorkMetrics,
    ) -> std::io::Result<Runner> {
        let queue = Arc::new(Queue { state: Mutex::default(), wake: Condvar::new(), metrics });
        let runner = Runner { queue: queue.clone(), max_waiting: options.limits.waiting };
        for _ in 0..options.threads {
            let (model, queue) = (model.clone(), queue.clone());
            let name = format!("run {}", model.name());
            std::thread::Builder::new().name(name).spawn(move || serve(&model, &queue))?;
        }
        Ok(runner)
    }

    /// Queues sequences; the receiver gets the response.
    pub fn run(
        &self,
        sequences: Vec<Vec<Element>>,
    ) -> Result<oneshot::Receiver<Response>, ApiError> {
        let elements = sequences.iter().map(|elements| elements.len().max(1)).sum();
        let (reply, response) = oneshot::channel();
        let mut state = self.queue.lock();
        if state.elements > 0 && state.elements + elements > self.max_waiting {
            return Err(ApiError::busy("too many elements wait for this model; retry later"));
        }
        state.elements += elements;
        state.waiting.push_back(Job { sequences, elements, since: Instant::now(), reply });
        self.queue.metrics.waiting.set(state.elements as i64);
        drop(state);
        self.queue.wake.notify_one();
        Ok(response)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.wake.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch; None when the runner is dropped.
    fn next(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut jobs, mut elements) = (Vec::new(), 0);
        while let Some(job) = state.waiting.front()
            && (jobs.is_empty() || elements + job.elements <= MAX_BATCH_ELEMENTS)
        {
            elements += job.elements;
            jobs.extend(state.waiting.pop_front());
        }
        state.elements -= elements;
        self.metrics.waiting.set(state.elements as i64);
        Some(jobs)
    }
}

fn serve(model: &LiveModel, queue: &Queue) {
    let mut run = LiveRun::new(model);
    while let Some(mut jobs) = queue.next() {
        // Clients that have disconnected need no response.
        jobs.retain(|job| !job.reply.is_closed());
        if jobs.is_empty() {
            continue;
        }
        let together = catch_unwind(AssertUnwindSafe(|| batch(model, &mut run, &jobs)));
        let responses = together.unwrap_or_else(|_| {
            // A run has no side effects: each request is retried alone, and only the culprit fails.
            tracing::error!(
                model = model.name(),
                "a batch failed; its requests are run one by one"
            );
            run = LiveRun::new(model);
            let mut alone = |job| {
                let one = catch_unwind(AssertUnwindSafe(|| {
                    batch(model, &mut run, std::slice::from_ref(job))
                }));
                one.ok().and_then(|mut one| one.pop()).unwrap_or_else(|| {
                    run = LiveRun::new(model);
                    Err(ApiError::internal("the model failed on this request"))
                })
            };
            jobs.iter().map(&mut alone).collect()
        });
        queue
            .metrics
            .batch
            .observe(jobs.iter().map(|job| job.sequences.len()).sum::<usize>() as f64);
        for (job, response) in jobs.into_iter().zip(responses) {
            if response.is_ok() {
                let count: usize = job.sequences.iter().map(Vec::len).sum();
                queue.metrics.elements.inc_by(count as u64);
                queue.metrics.all_predicted_after(count as u64, job.since.elapsed());
            }
            let _ = job.reply.send(response); // the client may have disconnected
        }
    }
}

/// Runs all jobs as one batch. A job that is refused does not affect the others.
fn batch(model: &LiveModel, run: &mut LiveRun, jobs: &[Job]) -> Vec<Response> {
    let (mut wholes, mut refused) = (Vec::new(), Vec::new());
    for job in jobs {
        let first = wholes.len();
        let read = job.sequences.iter().enumerate().try_for_each(|(number, elements)| {
            wholes.push(run.read(elements).map_err(|e| format!("sequence {number}: {e}"))?);
            Ok::<(), String>(())
        });
        if read.is_err() {
            wholes.truncate(first);
        }
        refused.push(read.err());
    }
    #[cfg(test)]
    jobs.iter().flat_map(|job| job.sequences.iter().flatten()).for_each(crate::fault::check);
    let mut rows = match predictions(run, &mut wholes) {
        Ok(rows) => rows.into_iter(),
        // Each sequence was accepted, so the error is about the batch.
        Err(e) => return jobs.iter().map(|_| Err(ApiError::element(e.to_string()))).collect(),
    };
    let each = jobs.iter().zip(refused).map(|(job, refused)| match refused {
        Some(why) => Err(ApiError::element(why)),
        None => {
            let rows: Vec<String> = rows.by_ref().take(job.sequences.len()).collect();
            Ok(reply(model.name(), &rows))
        }
    });
    each.collect()
}

fn reply(model: &str, rows: &[String]) -> String {
    let length = rows.iter().map(|row| row.len() + 1).sum::<usize>();
    let mut reply = String::with_capacity(length + model.len() + 40);
    // Models' names need no JSON escapes.
    reply.push_str("{\"model\":\"");
    reply.push_str(model);
    reply.push_str("\",\"answers\":[");
    for (number, row) in rows.iter().enumerate() {
        reply.push_str(if number == 0 { "" } else { "," });
        reply.push_str(row);
    }
    reply.push_str("]}");
    reply
}

/// The predictions of each sequence, as JSON.
fn predictions(run: &LiveRun, wholes: &mut [PreparedSequence]) -> drnn_tasks::Result<Vec<String>> {
    let mut rows = vec![String::from("["); wholes.len()];
    run.run(wholes, |number, prediction| {
        let row = &mut rows[number];
        if row.len() > 1 {
            row.push(',');
        }
        *row += &prediction.json();
    })?;
    rows.iter_mut().for_each(|row| row.push(']'));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{FAULT, model};
    use crate::metrics::Metrics;

    #[test]
    fn a_request_that_fails_fails_alone() {
        let model = Arc::new(model());
        // No thread yet, so that all jobs wait and form one batch.
        let options = Options { threads: 0, ..Options::default() };
        let runner = Runner::start(&model, &options, Metrics::new().work("m", "run")).unwrap();
        let tokens = |tokens: &[u32]| vec![tokens.iter().map(|t| Element::Token(*t)).collect()];
        let jobs = [vec![0, 1, 2], vec![1, FAULT], vec![2, 9], vec![], vec![2]];
        let waiting: Vec<_> = jobs.iter().map(|job| runner.run(tokens(job)).unwrap()).collect();
        let (queue, of) = (runner.queue.clone(), model.clone());
        std::thread::spawn(move || serve(&of, &queue));
        let found: Vec<Response> =
            waiting.into_iter().map(|w| w.blocking_recv().unwrap()).collect();
        for i in [0, 3, 4] {
            let alone = model.run(&tokens(&jobs[i])).unwrap().remove(0);
            let alone: Vec<String> = alone.iter().map(|prediction| prediction.json()).collect();
            let alone = format!(r#"{{"model":"m","answers":[[{}]]}}"#, alone.join(","));
            assert_eq!(found[i], Ok(alone));
        }
        assert_eq!(found[1].as_ref().unwrap_err().code(), "internal");
        let message = found[2].as_ref().unwrap_err().to_string();
        assert!(message.contains("sequence 0: element 1: token 9 is not below 5"), "{message}");
        // The thread continues.
        assert!(runner.run(tokens(&[1])).unwrap().blocking_recv().unwrap().is_ok());
    }

    #[test]
    fn requests_beyond_the_queue_limit_are_refused() {
        let mut options = Options { threads: 0, ..Options::default() };
        options.limits.waiting = 5;
        let runner = Runner::start(&Arc::new(model()), &options, Metrics::new().work("m", "run"));
        let (runner, four) = (runner.unwrap(), vec![vec![Element::Token(0); 4]]);
        let _waiting = runner.run(four.clone()).unwrap();
        assert_eq!(runner.run(four).unwrap_err().code(), "busy");
    }
}
