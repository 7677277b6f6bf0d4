//! The thread that steps all streams of a model together.
//!
//! ```text
//! stream 1   e e e ]            each step takes the first element of every stream that has one;
//! stream 2   e ]        step    an element waits for those of other streams, but not longer than `wait`
//! stream 3   ]                  from its arrival
//! ```
//!
//! A stream whose answers are not taken is paused: nothing more of it is read until they are.
//!
//! What is wrong with an element is its own stream's affair: the others' step goes on, and so they do where reading it
//! panics. Should the step itself panic, which is the same arithmetic whatever was said, the streams that took part in
//! it are closed, because nobody knows what they have read; the others move to new memory as they were.

use crate::metrics::WorkMetrics;
use crate::stream::frames::StreamEvent;
use crate::stream::pending::{Next, Stream};
use crate::stream::stepper::Command;
use drnn_tasks::live::{Answer, Element, LiveBatch, LiveId, LiveModel};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

pub struct Steps<'m> {
    model: &'m LiveModel,
    wait: Duration,
    metrics: WorkMetrics,
    batch: LiveBatch<'m>,
    streams: HashMap<u64, Stream>,
    by_live: HashMap<LiveId, u64>,
    /// Streams that have something to be read.
    ready: Vec<u64>,
}

impl<'m> Steps<'m> {
    pub fn new(
        model: &'m LiveModel,
        wait: Duration,
        metrics: WorkMetrics,
    ) -> drnn_tasks::Result<Steps<'m>> {
        let batch = LiveBatch::new(model)?;
        metrics.waiting.set(0); // nothing is left of whoever was before
        let (streams, by_live, ready) = Default::default();
        Ok(Steps { model, wait, metrics, batch, streams, by_live, ready })
    }

    /// Until everybody has gone.
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
            // Once all have something to read there is nobody to wait for.
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
            Command::Join { out, room } => {
                let live = self.batch.join();
                self.by_live.insert(live, id);
                self.streams.insert(id, Stream::new(live, out, room));
            }
            Command::Say(message, since, lease) => {
                // One that was closed may still be talking.
                let Some(stream) = self.streams.get_mut(&id) else { return };
                self.metrics.waiting.inc_by(message.elements.len() as i64);
                if stream.waiting_since().is_none() {
                    self.ready.push(id);
                }
                stream.say(message, since, lease);
            }
            Command::Resume => {
                if self.streams.get_mut(&id).is_some_and(|s| std::mem::take(&mut s.paused)) {
                    self.ready.push(id);
                }
            }
            Command::Finish => {
                self.streams.get_mut(&id).into_iter().for_each(Stream::finish);
            }
            Command::Leave => self.leave(id, None),
        }
    }

    /// Reads the next of every stream that has something.
    fn turn(&mut self) {
        let (mut elements, mut flushed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let mut turn = std::mem::take(&mut self.ready);
        turn.retain(|id| !self.streams.get_mut(id).is_some_and(Stream::pause_if_full));
        for &id in &turn {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let position = self.batch.position(stream.live).unwrap_or_default();
            match stream.next(position, &self.metrics) {
                Next::Element(element) => elements.push((stream.live, element)),
                Next::Flush => flushed.push(stream.live),
                Next::Nothing => {}
                Next::Gone => gone.push(id),
            }
        }
        gone.into_iter().for_each(|id| self.leave(id, None));
        if !elements.is_empty() {
            self.metrics.batch.observe(elements.len() as f64);
            self.step(elements);
        }
        if !flushed.is_empty() {
            self.flush(&flushed);
        }
        for id in turn {
            if self.streams.get_mut(&id).is_some_and(Stream::settle) {
                self.ready.push(id);
            }
        }
    }

    fn step(&mut self, mut elements: Vec<(LiveId, Element)>) {
        let mut attempt = self.attempt(|batch, answer| step(batch, &elements, answer));
        if attempt == Attempt::NoneMoved {
            // One or more cannot be read: the good ones once more.
            self.sort_out(&mut elements);
            attempt = self.attempt(|batch, answer| step(batch, &elements, answer));
        }
        if attempt != Attempt::Done {
            self.fail(&ids(&elements));
        }
        self.metrics.elements.inc_by(elements.len() as u64);
    }

    /// Keeps what can be read. Others are told why not; those whose reading panics are closed.
    fn sort_out(&mut self, elements: &mut Vec<(LiveId, Element)>) {
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
        if self.attempt(|batch, answer| batch.flush(ids, answer)) != Attempt::Done {
            self.fail(ids);
        }
        for id in ids {
            self.stream(id).into_iter().for_each(Stream::flushed);
        }
    }

    fn stream(&mut self, live: &LiveId) -> Option<&mut Stream> {
        self.streams.get_mut(self.by_live.get(live)?)
    }

    /// Does something with streams, and hands on the answers.
    fn attempt(
        &mut self,
        act: impl FnOnce(
            &mut LiveBatch<'m>,
            &mut dyn FnMut(LiveId, Answer<'m>),
        ) -> drnn_tasks::Result<()>,
    ) -> Attempt {
        let before = self.batch.changes();
        let Steps { batch, streams, by_live, metrics, .. } = self;
        let mut answer = |live: LiveId, answer: Answer<'m>| {
            if let Some(stream) = by_live.get(&live).and_then(|id| streams.get_mut(id)) {
                stream.answer(&answer);
                metrics.answered_after(stream.since.elapsed());
            }
        };
        match catch_unwind(AssertUnwindSafe(|| act(batch, &mut answer))) {
            Ok(Ok(())) => Attempt::Done,
            _ if self.batch.changes() == before => Attempt::NoneMoved,
            _ => Attempt::Broken,
        }
    }

    /// Closes these; the others move on in new memory.
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
        last.into_iter().for_each(|last| stream.tell(last));
        self.by_live.remove(&stream.live);
        self.ready.retain(|ready| *ready != id);
        self.metrics.waiting.dec_by(stream.waiting() as i64);
        let _ = self.batch.leave(stream.live); // after a failure it is not there
    }
}

/// How something that was done with streams has ended.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Done,
    /// It was refused, or there was a panic, before any stream had changed.
    NoneMoved,
    /// Nobody knows what they have read.
    Broken,
}

fn ids(elements: &[(LiveId, Element)]) -> Vec<LiveId> {
    elements.iter().map(|(id, _)| *id).collect()
}

/// Whether an element can be read, with a fault to be tested where there is one.
fn check(batch: &mut LiveBatch, live: LiveId, element: &Element) -> drnn_tasks::Result<()> {
    #[cfg(test)]
    crate::fault::check_reading(element);
    batch.check(live, element)
}

/// A step, likewise.
fn step<'m>(
    batch: &mut LiveBatch<'m>,
    elements: &[(LiveId, Element)],
    answer: &mut dyn FnMut(LiveId, Answer<'m>),
) -> drnn_tasks::Result<()> {
    #[cfg(test)]
    elements.iter().for_each(|(_, element)| crate::fault::check_reading(element));
    let outcome = batch.step(elements, answer);
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
    use crate::stream::stepper::{LiveSeat, Stepper};
    use drnn_tasks::live::LiveStream;
    use std::sync::Arc;

    type Joined = (LiveSeat, FrameReceiver);

    fn say((seat, _): &Joined, model: &LiveModel, text: &str) {
        let message: Message = parse(model, text, 100).unwrap();
        seat.say(message, Lease::nothing());
    }

    /// Frames up to the first that contains this.
    fn until((_, out): &mut Joined, what: &str) -> Vec<String> {
        let mut frames = Vec::new();
        while !frames.last().is_some_and(|frame: &String| frame.contains(what)) {
            match out.blocking_recv() {
                Some(StreamEvent::Frame(frame)) => frames.push(frame),
                other => panic!("{other:?} instead of {what} after {frames:?}"),
            }
        }
        frames
    }

    fn expected(model: &LiveModel, tokens: &[u32]) -> Vec<String> {
        let mut stream = LiveStream::new(model).unwrap();
        let mut answers = Vec::new();
        for token in tokens {
            answers.extend(stream.push(&Element::Token(*token)).unwrap());
        }
        answers.extend(stream.flush().unwrap());
        let frame = |json: String| json.replacen('{', "{\"sequence\":0,", 1);
        answers.iter().map(|answer| frame(answer.json())).collect()
    }

    fn start(wait: u64) -> (Arc<LiveModel>, Stepper) {
        let (model, metrics) = (Arc::new(model()), Metrics::new().work("m", "stream"));
        let stepper = Stepper::start(&model, Duration::from_millis(wait), metrics).unwrap();
        (model, stepper)
    }

    #[test]
    fn a_step_that_fails_closes_those_in_it_and_nobody_else() {
        // Long enough for those who speak at once to be read at once.
        let (model, stepper) = start(100);
        let [mut other, mut innocent, mut culprit] = std::array::from_fn(|_| stepper.join(100));
        say(&other, &model, r#"{"elements": [0, 1, 2]}"#);
        until(&mut other, "\"position\":0");
        say(&innocent, &model, r#"{"element": 1}"#);
        say(&culprit, &model, &format!(r#"{{"element": {FAULT}}}"#));
        for closed in [&mut innocent, &mut culprit] {
            assert_eq!(closed.1.blocking_recv(), Some(StreamEvent::Failed));
            assert_eq!(closed.1.blocking_recv(), None);
            say(closed, &model, r#"{"element": 0}"#); // into the void
        }
        say(&other, &model, r#"{"elements": [2, 0], "flush": true}"#);
        let found = until(&mut other, "flushed");
        assert_eq!(found[..4], expected(&model, &[0, 1, 2, 2, 0])[1..]);
        // New ones are as they should be.
        let mut new = stepper.join(100);
        say(&new, &model, r#"{"elements": [1, 1], "flush": true}"#);
        assert_eq!(until(&mut new, "flushed")[..2], expected(&model, &[1, 1]));
    }

    #[test]
    fn a_panic_over_one_streams_element_closes_that_stream_alone() {
        let (model, stepper) = start(100);
        let [mut innocent, mut culprit, mut refused] = std::array::from_fn(|_| stepper.join(100));
        say(&innocent, &model, r#"{"elements": [1, 2, 0], "flush": true}"#);
        say(&culprit, &model, &format!(r#"{{"elements": [1, {FAULT_IN_READING}, 2]}}"#));
        say(&refused, &model, r#"{"elements": [2, 9, 1]}"#);
        say(&refused, &model, r#"{"elements": [1], "flush": true}"#);
        assert_eq!(until(&mut innocent, "flushed")[..3], expected(&model, &[1, 2, 0]));
        assert_eq!(culprit.1.blocking_recv(), Some(StreamEvent::Failed));
        let found = until(&mut refused, "flushed");
        let answers: Vec<_> = found.iter().filter(|f| f.contains("values")).cloned().collect();
        assert_eq!(answers, expected(&model, &[2, 1]));
    }

    #[test]
    fn what_is_refused_is_told_in_its_place_and_the_stream_goes_on() {
        let (model, stepper) = start(0);
        let mut stream = stepper.join(100);
        // Refused by the network (9), and as no token at all; what stands behind in the message is not read.
        say(&stream, &model, r#"{"elements": [1, 9, 2]}"#);
        say(&stream, &model, r#"{"elements": [2, "x", 0], "position": 1, "flush": true}"#);
        say(&stream, &model, r#"{"elements": [0], "position": 2, "flush": true}"#);
        let found = until(&mut stream, "flushed");
        let answers: Vec<_> = found.iter().filter(|f| f.contains("values")).cloned().collect();
        assert_eq!(answers, expected(&model, &[1, 2, 0]));
        let errors: Vec<_> = found.iter().filter(|f| f.contains("error")).collect();
        assert!(errors[0].contains("element 1: token 9 is not below 5"), "{errors:?}");
        assert!(errors[0].contains(r#""position":1"#), "{errors:?}");
        assert!(errors[1].contains("element 2: `\\\"x\\\"` is not a token"), "{errors:?}");
        assert_eq!(errors.len(), 2);
        // A message for another position is not.
        say(&stream, &model, r#"{"element": 0, "position": 7}"#);
        let Some(StreamEvent::Misplaced(why)) = stream.1.blocking_recv() else {
            panic!("out of order")
        };
        assert_eq!(why, "the message is for position 7, but position 0 is next");
    }

    #[test]
    fn a_stream_whose_frames_are_not_taken_is_paused_and_nobody_else() {
        let (model, stepper) = start(0);
        let [mut deaf, mut other] = std::array::from_fn(|_| stepper.join(2000));
        let tokens: Vec<u32> = (0..2000).map(|t| t % 3).collect();
        let message = format!(r#"{{"elements": {tokens:?}, "flush": true}}"#);
        deaf.0.say(parse(&model, &message, 2000).unwrap(), Lease::nothing());
        // Long after all of it could have been read.
        for _ in 0..200 {
            say(&other, &model, r#"{"elements": [1, 2], "flush": true}"#);
            until(&mut other, "flushed");
        }
        assert!((MAX_QUEUED..MAX_QUEUED + 1000).contains(&deaf.1.queued()));
        let mut found = Vec::new();
        while found.len() < 2001 {
            match deaf.1.blocking_recv() {
                Some(StreamEvent::Frame(frame)) => found.push(frame),
                other => panic!("{other:?}"),
            }
            if deaf.1.has_resumed() {
                deaf.0.resume();
            }
        }
        assert_eq!(found[..2000], expected(&model, &tokens));
    }

    #[test]
    fn many_at_once_are_each_answered_as_alone() {
        let (model, stepper) = start(1);
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
        for (i, stream) in all.iter_mut().enumerate() {
            let found = until(stream, "flushed");
            assert_eq!(found[..i], expected(&model, &tokens(i)));
            assert_eq!(found[i], format!(r#"{{"flushed":{{"answers":{i},"sequence":0}}}}"#));
            assert_eq!(stream.1.blocking_recv(), Some(StreamEvent::Finished));
        }
    }
}
