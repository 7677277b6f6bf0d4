//! What a tagger's engines train, as text: a checkpoint of another tagger is refused. It says nothing
//! of the device, so a training may continue on another one.

use drnn::NetSpec;
use drnn_tasks::tagger::TaggerNet;

/// [`crate::Engine::identity`] of a tagger's engine.
pub fn identity(net: &TaggerNet) -> String {
    described(net, NetSpec::canonical)
}

/// [`crate::Engine::identity_of_0_1`] of a tagger's engine.
pub fn identity_of_0_1(net: &TaggerNet) -> String {
    described(net, NetSpec::display_of_0_1)
}

/// Both networks in the words of `describe`, and whether words' vectors are trained.
fn described(net: &TaggerNet, describe: impl Fn(&NetSpec) -> String) -> String {
    let vectors = if net.frozen.is_some() { "frozen" } else { "learned" };
    let [chars, words] = [&net.chars, &net.words].map(describe);
    format!("{chars} | {words} | {vectors} vectors")
}
