//! Parameters of `group/*.cu`: many small LSTMs at once. Shapes as in `group/common.cuh`.

use super::{Coefficients, Progress, RecipeWords, Task, Uint2, params};

params! {
    GroupForward for "group_forward" {
        tasks: *const Task,
        progress: *const Progress,
        params: *const f32,
        h_images: *mut u8,
        gates: *mut Uint2,
        cells: *mut u16,
        steps: u32,
        elements: u32,
        /// Whether gates and cells are saved for backward.
        save: u32,
    }

    GroupOutputs for "group_outputs" {
        tasks: *const Task,
        progress: *const Progress,
        params: *const f32,
        h_images: *const u8,
        d_outputs: *mut u16,
        losses: *mut f64,
        /// Null in training.
        outputs: *mut f32,
        steps: u32,
        elements: u32,
        chunks: u32,
    }

    GroupBackward for "group_backward" {
        tasks: *const Task,
        progress: *const Progress,
        params: *const f32,
        d_outputs: *const u16,
        gates: *const Uint2,
        cells: *const u16,
        d_images: *mut u8,
        steps: u32,
        elements: u32,
    }

    GroupWeights for "group_weights" {
        tasks: *const Task,
        progress: *const Progress,
        h_images: *const u8,
        d_images: *const u8,
        products: *mut f32,
        images: u32,
        chunks: u32,
    }

    GroupBegin for "group_begin" {
        progress: *mut Progress,
        lanes: u32,
    }

    GroupSquares for "group_squares" {
        tasks: *const Task,
        progress: *const Progress,
        products: *const f32,
        partial: *mut f64,
    }

    GroupFinish for "group_finish" {
        tasks: *const Task,
        progress: *mut Progress,
        squares: *const f64,
        losses: *const f64,
        coefficients: *mut Coefficients,
        beta1: f32,
        beta2: f32,
        learn: u32,
    }

    GroupAdam for "group_adam" {
        coefficients: *const Coefficients,
        products: *const f32,
        params: *mut f32,
        mean: *mut f32,
        square: *mut f32,
        beta1: f32,
        beta2: f32,
        eps: f32,
    }

    MakeSine for "make_sine" {
        recipe: *const RecipeWords,
        x: *mut f32,
        y: *mut f32,
    }

    MakeReversal for "make_reversal" {
        recipe: *const RecipeWords,
        x: *mut f32,
        y: *mut u32,
    }
}
