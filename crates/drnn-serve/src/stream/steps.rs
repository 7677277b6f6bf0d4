//! The thread that steps all streams of a model together.
//!
//! ```text
//! stream 1   e e e ]            a step takes the first element of every stream that has one;
//! stream 2   e ]        step    an element waits for those of other streams, at most `wait`
//! stream 3   ]                  after its arrival
//! ```
//!
//! A stream whose frame queue is full is paused until its connection has sent some of it.
//!
//! A bad element affects only its own stream, even if reading it panics. If the step itself panics,
//! the streams that took part are closed, because their states are unknown; the others continue in
//! newly allocated memory.

use crate::metrics::WorkMetrics;
use crate::stream::frames::StreamEvent;
use crate::stream::pending::{Next, StreamState};
use crate::stream::stepper::Command;
use drnn_tasks::live::{Element, LiveBatch, LiveId, LiveModel, Prediction};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

pub struct Steps<'m> {
    model: &'m LiveModel,
    wait: Duration,
    metrics: WorkMetrics,
    batch: LiveBatch<'m>,
    streams: HashMap<u64, StreamState>,
    by_live: HashMap<LiveId, u64>,
    /// Streams with pending messages that are not paused.
    ready: Vec<u64>,
}

impl<'m> Steps<'m> {
    pub fn new(
        model: &'m LiveModel,
        wait: Duration,
        metrics: WorkMetrics,
    ) -> drnn_tasks::Result<Steps<'m>> {
        let batch = LiveBatch::new(model)?;
        metrics.waiting.set(0); // the streams of a thread that failed are gone
        let (streams, by_live, ready) = Default::default();
        Ok(Steps { model, wait, metrics, batch, streams, by_live, ready })
    }

    /// Runs until the stepper and all streams are dropped.
    pub fn serve(&mut self, commands: &Receiver<(u64, Command)>) {
        loop {
            if self.ready.is_empty() {
                match commands.recv() {
                    Ok((id, command)) => self.take(id, command),
                    Err(_) => return,
                }
            }
            while let Ok((id, command)) = commands.try_recv() {
                self.take(id, command);
            }
            let arrived = self.ready.iter().filter_map(|id| self.streams[id].waiting_since());
            let until = arrived.min().map(|first| first + self.wait);
            // Once all streams are ready there is nothing to wait for.
            while let Some(left) =
                until.and_then(|until| until.checked_duration_since(Instant::now()))
                && self.ready.len() < self.streams.len()
            {
                match commands.recv_timeout(left) {
                    Ok((id, command)) => self.take(id, command),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            self.turn();
        }
    }

    fn take(&mut self, id: u64, command: Command) {
        match command {
            Command::Join { out, permits } => {
                let live = self.batch.join();
                self.by_live.insert(live, id);
                self.streams.insert(id, StreamState::new(live, out, permits));
            }
            Command::Message(message, arrived, lease) => {
                // The client of a closed stream may still be sending.
                let Some(stream) = self.streams.get_mut(&id) else { return };
                self.metrics.waiting.inc_by(message.elements.len() as i64);
                if stream.waiting_since().is_none() {
                    self.ready.push(id);
                }
                stream.push(message, arrived, lease);
            }
            Command::Resume => {
                if self.streams.get_mut(&id).is_some_and(|s| std::mem::take(&mut s.paused)) {
                    self.ready.push(id);
                }
            }
            Command::Finish => {
                self.streams.get_mut(&id).into_iter().for_each(StreamState::finish);
            }
            Command::Leave => self.leave(id, None),
        }
    }

    /// One turn: the next element, flush or error of every ready stream.
    fn turn(&mut self) {
        let (mut elements, mut flushed, mut closed) = (Vec::new(), Vec::new(), Vec::new());
        let mut turn = std::mem::take(&mut self.ready);
        turn.retain(|id| !self.streams.get_mut(id).is_some_and(StreamState::pause_if_full));
        for &id in &turn {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let position = self.batch.position(stream.live).unwrap_or_default();
            match stream.next(position, &self.metrics) {
                Next::Element(element) => elements.push((stream.live, element)),
                Next::Flush => flushed.push(stream.live),
                Next::Nothing => {}
                Next::Close => closed.push(id),
            }
        }
        closed.into_iter().for_each(|id| self.leave(id, None));
        if !elements.is_empty() {
            self.metrics.batch.observe(elements.len() as f64);
            self.step(elements);
        }
        if !flushed.is_empty() {
            self.flush(&flushed);
        }
        for id in turn {
            if self.streams.get_mut(&id).is_some_and(StreamState::settle) {
                self.ready.push(id);
            }
        }
    }

    fn step(&mut self, mut elements: Vec<(LiveId, Element)>) {
        let mut attempt = self.attempt(|batch, send| step(batch, &elements, send));
        if attempt == Attempt::Unchanged {
            // At least one element is bad: retry with the good ones.
            self.retain_good(&mut elements);
            attempt = self.attempt(|batch, send| step(batch, &elements, send));
        }
        if attempt != Attempt::Done {
            self.fail(&ids(&elements));
        }
        self.metrics.elements.inc_by(elements.len() as u64);
    }

    /// Retains the elements that can be read. Refused ones get an error frame; streams whose element
    /// panics are closed.
    fn retain_good(&mut self, elements: &mut Vec<(LiveId, Element)>) {
        let mut failed = Vec::new();
        elements.retain(|(live, element)| {
            let batch = &mut self.batch;
            let checked = catch_unwind(AssertUnwindSafe(|| check(batch, *live, element)));
            let Ok(checked) = checked else {
                failed.push(*live);
                return false;
            };
            if let Err(why) = &checked {
                let position = self.batch.position(*live).unwrap_or_default();
                let stream = self.by_live.get(live).and_then(|id| self.streams.get_mut(id));
                if let Some(stream) = stream {
                    stream.refuse(position, why.to_string(), &self.metrics);
                }
            }
            checked.is_ok()
        });
        if !failed.is_empty() {
            self.fail(&failed);
        }
    }

    fn flush(&mut self, ids: &[LiveId]) {
        if self.attempt(|batch, send| batch.flush(ids, send)) != Attempt::Done {
            self.fail(ids);
        }
        for id in ids {
            self.stream(id).into_iter().for_each(StreamState::flushed);
        }
    }

    fn stream(&mut self, live: &LiveId) -> Option<&mut StreamState> {
        self.streams.get_mut(self.by_live.get(live)?)
    }

    /// Calls `action` on the batch, sends its predictions, and reports how it ended.
    fn attempt(
        &mut self,
        action: impl FnOnce(
            &mut LiveBatch<'m>,
            &mut dyn FnMut(LiveId, Prediction<'m>),
        ) -> drnn_tasks::Result<()>,
    ) -> Attempt {
        let before = self.batch.changes();
        let Steps { batch, streams, by_live, metrics, .. } = self;
        let mut send = |live: LiveId, prediction: Prediction<'m>| {
            if let Some(stream) = by_live.get(&live).and_then(|id| streams.get_mut(id)) {
                stream.send_prediction(&prediction);
                metrics.predicted_after(stream.since.elapsed());
            }
        };
        match catch_unwind(AssertUnwindSafe(|| action(batch, &mut send))) {
            Ok(Ok(())) => Attempt::Done,
            _ if self.batch.changes() == before => Attempt::Unchanged,
            _ => Attempt::Broken,
        }
    }

    /// Closes these streams; the others continue in a new batch.
    fn fail(&mut self, ids: &[LiveId]) {
        tracing::error!(model = self.model.name(), streams = ids.len(), "a step failed");
        let Ok(empty) = LiveBatch::new(self.model) else { return };
        let others = std::mem::replace(&mut self.batch, empty).without(ids);
        let lost: Vec<u64> = match others {
            Ok(others) => {
                self.batch = others;
                ids.iter().filter_map(|live| self.by_live.get(live).copied()).collect()
            }
            Err(_) => self.streams.keys().copied().collect(),
        };
        lost.into_iter().for_each(|id| self.leave(id, Some(StreamEvent::Failed)));
    }

    fn leave(&mut self, id: u64, last: Option<StreamEvent>) {
        let Some(stream) = self.streams.remove(&id) else { return };
        last.into_iter().for_each(|last| stream.send(last));
        self.by_live.remove(&stream.live);
        self.ready.retain(|ready| *ready != id);
        self.metrics.waiting.dec_by(stream.waiting() as i64);
        let _ = self.batch.leave(stream.live); // after a failure the batch does not have it
    }
}

/// How a call on the batch ended.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Done,
    /// An error or a panic, before any stream had changed.
    Unchanged,
    /// A panic or an error afterwards: the states of the streams are unknown.
    Broken,
}

fn ids(elements: &[(LiveId, Element)]) -> Vec<LiveId> {
    elements.iter().map(|(id, _)| *id).collect()
}

/// Checks whether an element can be read. Tests inject faults.
fn check(batch: &mut LiveBatch, live: LiveId, element: &Element) -> drnn_tasks::Result<()> {
    #[cfg(test)]
    crate::fault::check_reading(element);
    batch.check(live, element)
}

/// Steps the batch. Tests inject faults.
fn step<'m>(
    batch: &mut LiveBatch<'m>,
    elements: &[(LiveId, Element)],
    send: &mut dyn FnMut(LiveId, Prediction<'m>),
) -> drnn_tasks::Result<()> {
    #[cfg(test)]
    elements.iter().for_each(|(_, element)| crate::fault::check_reading(element));
    let outcome = batch.step(elements, send);
    #[cfg(test)]
    elements.iter().for_each(|(_, element)| crate::fault::check(element));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{FAULT, FAULT_IN_READING, model};
    use crate::limits::budget::Lease;
    use crate::metrics::Metrics;
    use crate::stream::frames::{FrameReceiver, MAX_QUEUED};
    use crate::stream::message::{Message, parse};
    use crate::stream::stepper::{Stepper, StreamHandle};
    use drnn_tasks::live::LiveStream;
    use std::sync::Arc;

    type Joined = (StreamHandle, FrameReceiver);

    fn say((stream, _): &Joined, model: &LiveModel, text: &str) {
        let message: Message = parse(model, text, 100).unwrap();
        stream.send(message, Lease::nothing());
    }

    /// Frames up to the first that contains this, received by `next`.
    fn frames_until(what: &str, mut next: impl FnMut() -> Option<StreamEvent>) -> Vec<String> {
        let mut frames = Vec::new();
        while !frames.last().is_some_and(|frame: &String| frame.contains(what)) {
            match next() {
                Some(StreamEvent::Frame(frame)) => frames.push(frame),
                other => panic!("{other:?} instead of {what} after {frames:?}"),
            }
        }
        frames
    }

    /// The same, of frames that are queued already.
    fn queued_until((_, out): &mut Joined, what: &str) -> Vec<String> {
        frames_until(what, || out.try_recv())
    }

    fn expected(model: &LiveModel, tokens: &[u32]) -> Vec<String> {
        let mut stream = LiveStream::new(model).unwrap();
        let mut predictions = Vec::new();
        for token in tokens {
            predictions.extend(stream.push(&Element::Token(*token)).unwrap());
        }
        predictions.extend(stream.flush().unwrap());
        let frame = |json: String| json.replacen('{', "{\"sequence\":0,", 1);
        predictions.iter().map(|prediction| frame(prediction.json())).collect()
    }

    /// Steps without a thread: [`Manual::run`] does what is due, so that no test depends on time.
    struct Manual<'m> {
        steps: Steps<'m>,
        commands: Receiver<(u64, Command)>,
        stepper: Stepper,
    }

    impl<'m> Manual<'m> {
        fn new(model: &'m LiveModel) -> Manual<'m> {
            let metrics = Metrics::new().work("m", "stream");
            let steps = Steps::new(model, Duration::ZERO, metrics).unwrap();
            let (stepper, commands) = Stepper::without_thread();
            Manual { steps, commands, stepper }
        }

        /// Receives all commands, then takes turns until no stream is ready.
        fn run(&mut self) {
            self.commands.try_iter().for_each(|(id, command)| self.steps.take(id, command));
            while !self.steps.ready.is_empty() {
                self.steps.turn();
            }
        }
    }

    #[test]
    fn a_step_that_fails_closes_the_streams_in_it_and_no_other() {
        let model = model();
        let mut manual = Manual::new(&model);
        let [mut other, mut innocent, mut culprit] =
            std::array::from_fn(|_| manual.stepper.join(100));
        say(&other, &model, r#"{"elements": [0, 1, 2]}"#);
        manual.run();
        assert_eq!(queued_until(&mut other, "\"position\":0").len(), 1);
        say(&innocent, &model, r#"{"element": 1}"#);
        say(&culprit, &model, &format!(r#"{{"element": {FAULT}}}"#));
        manual.run();
        for closed in [&mut innocent, &mut culprit] {
            assert_eq!(closed.1.try_recv(), Some(StreamEvent::Failed));
            say(closed, &model, r#"{"element": 0}"#); // is ignored
        }
        say(&other, &model, r#"{"elements": [2, 0], "flush": true}"#);
        manual.run();
        let found = queued_until(&mut other, "flushed");
        assert_eq!(found[..4], expected(&model, &[0, 1, 2, 2, 0])[1..]);
        for closed in [&mut innocent, &mut culprit] {
            assert_eq!(closed.1.blocking_recv(), None);
        }
        // Streams that join later work.
        let mut new = manual.stepper.join(100);
        say(&new, &model, r#"{"elements": [1, 1], "flush": true}"#);
        manual.run();
        assert_eq!(queued_until(&mut new, "flushed")[..2], expected(&model, &[1, 1]));
    }

    #[test]
    fn a_panic_over_one_streams_element_closes_that_stream_alone() {
        let model = model();
        let mut manual = Manual::new(&model);
        let [mut innocent, mut culprit, mut refused] =
            std::array::from_fn(|_| manual.stepper.join(100));
        say(&innocent, &model, r#"{"elements": [1, 2, 0], "flush": true}"#);
        say(&culprit, &model, &format!(r#"{{"elements": [1, {FAULT_IN_READING}, 2]}}"#));
        say(&refused, &model, r#"{"elements": [2, 9, 1]}"#);
        say(&refused, &model, r#"{"elements": [1], "flush": true}"#);
        manual.run();
        assert_eq!(queued_until(&mut innocent, "flushed")[..3], expected(&model, &[1, 2, 0]));
        assert_eq!(culprit.1.try_recv(), Some(StreamEvent::Failed));
        let found = queued_until(&mut refused, "flushed");
        let values: Vec<_> = found.iter().filter(|f| f.contains("values")).cloned().collect();
        assert_eq!(values, expected(&model, &[2, 1]));
    }

    #[test]
    fn an_error_is_sent_in_its_place_and_the_stream_continues() {
        let model = model();
        let mut manual = Manual::new(&model);
        let mut stream = manual.stepper.join(100);
        // Refused by the network (9), and not a token at all; the rest of the message is dropped.
        say(&stream, &model, r#"{"elements": [1, 9, 2]}"#);
        say(&stream, &model, r#"{"elements": [2, "x", 0], "position": 1, "flush": true}"#);
        say(&stream, &model, r#"{"elements": [0], "position": 2, "flush": true}"#);
        manual.run();
        let found = queued_until(&mut stream, "flushed");
        let values: Vec<_> = found.iter().filter(|f| f.contains("values")).cloned().collect();
        assert_eq!(values, expected(&model, &[1, 2, 0]));
        let errors: Vec<_> = found.iter().filter(|f| f.contains("error")).collect();
        assert!(errors[0].contains("element 1: token 9 is not below 5"), "{errors:?}");
        assert!(errors[0].contains(r#""position":1"#), "{errors:?}");
        assert!(errors[1].contains("element 2: `\\\"x\\\"` is not a token"), "{errors:?}");
        assert_eq!(errors.len(), 2);
        // A message for another position closes the stream.
        say(&stream, &model, r#"{"element": 0, "position": 7}"#);
        manual.run();
        let Some(StreamEvent::Misplaced(why)) = stream.1.try_recv() else { panic!("out of order") };
        assert_eq!(why, "the message is for position 7, but position 0 is next");
    }

    #[test]
    fn a_stream_with_a_full_queue_is_paused_and_no_other() {
        let model = model();
        let mut manual = Manual::new(&model);
        let [mut blocked, mut other] = std::array::from_fn(|_| manual.stepper.join(2000));
        let tokens: Vec<u32> = (0..2000).map(|t| t % 3).collect();
        let message = format!(r#"{{"elements": {tokens:?}, "flush": true}}"#);
        blocked.0.send(parse(&model, &message, 2000).unwrap(), Lease::nothing());
        for _ in 0..200 {
            say(&other, &model, r#"{"elements": [1, 2], "flush": true}"#);
            manual.run();
            queued_until(&mut other, "flushed");
        }
        assert!((MAX_QUEUED..MAX_QUEUED + 1000).contains(&blocked.1.queued()));
        let mut found = Vec::new();
        while found.len() < 2001 {
            match blocked.1.try_recv() {
                Some(StreamEvent::Frame(frame)) => found.push(frame),
                other => panic!("{other:?}"),
            }
            if blocked.1.has_resumed() {
                blocked.0.resume();
                manual.run();
            }
        }
        assert_eq!(found[..2000], expected(&model, &tokens));
    }

    #[test]
    fn batching_many_streams_does_not_change_predictions() {
        let (model, metrics) = (Arc::new(model()), Metrics::new().work("m", "stream"));
        let stepper = Stepper::start(&model, Duration::from_millis(1), metrics).unwrap();
        let mut all: Vec<Joined> = (0..40).map(|_| stepper.join(100)).collect();
        let tokens =
            |i: usize| -> Vec<u32> { (0..i as u32).map(|t| (t * 7 + i as u32) % 3).collect() };
        for (i, stream) in all.iter().enumerate() {
            for token in tokens(i) {
                say(stream, &model, &format!(r#"{{"element": {token}}}"#));
            }
            say(stream, &model, r#"{"flush": true}"#);
            stream.0.finish();
        }
        for (i, (_, out)) in all.iter_mut().enumerate() {
            let found = frames_until("flushed", || out.blocking_recv());
            assert_eq!(found[..i], expected(&model, &tokens(i)));
            assert_eq!(found[i], format!(r#"{{"flushed":{{"answers":{i},"sequence":0}}}}"#));
            assert_eq!(out.blocking_recv(), Some(StreamEvent::Finished));
        }
    }
}
