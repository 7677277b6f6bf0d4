// Runs a model on whole sequences: B sequences of T elements in, their outputs out.
//
//     run MODEL T B < numbers
//
// The numbers are sequence after sequence, element after element; so are the outputs, a line for each
// element. C++ needs three lines to own a handle, and throws what C returns.
//
//     c++ -std=c++17 run.cpp $(pkg-config --cflags --libs drnn) -o run
#include <drnn.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Free {
    void operator()(drnn_model *model) const { drnn_model_free(model); }
};
using Model = std::unique_ptr<drnn_model, Free>;

void check(drnn_status status)
{
    if (status != DRNN_OK)
        throw std::runtime_error(drnn_last_error());
}

Model load(const std::string &path)
{
    drnn_model *model = nullptr;
    check(drnn_model_load(path.c_str(), 0, &model));
    return Model(model);
}

drnn_model_info describe(const Model &model)
{
    drnn_model_info info;
    check(drnn_model_get_info(model.get(), &info, sizeof info));
    return info;
}

// Outputs (B, T', m) for x (B, T, q).
std::vector<float> run(const Model &model, const std::vector<float> &x, size_t steps, size_t rows)
{
    const drnn_model_info info = describe(model);
    drnn_sequences sequences = {};
    sequences.x = x.data();
    sequences.x_len = x.size();
    sequences.steps = steps;
    sequences.rows = rows;
    sequences.batch_first = 1;
    const size_t known = steps > info.look_ahead ? steps - info.look_ahead : 0;
    std::vector<float> outputs(known * rows * info.outputs);
    check(drnn_model_run(model.get(), &sequences, nullptr, outputs.data(), outputs.size(), nullptr));
    return outputs;
}

}  // namespace

int main(int argc, char **argv)
try {
    if (argc != 4) {
        std::cerr << "usage: run MODEL T B < numbers\n";
        return 2;
    }
    const Model model = load(argv[1]);
    const size_t steps = std::strtoul(argv[2], nullptr, 10), rows = std::strtoul(argv[3], nullptr, 10);
    std::cerr << drnn_model_description(model.get()) << "\n";
    std::vector<float> x;
    for (float number; std::cin >> number;)
        x.push_back(number);
    const std::vector<float> outputs = run(model, x, steps, rows);
    const size_t m = describe(model).outputs;
    for (size_t i = 0; i < outputs.size(); i++)
        std::printf((i + 1) % m ? "%.9g " : "%.9g\n", static_cast<double>(outputs[i]));
    return 0;
} catch (const std::exception &error) {
    std::cerr << "run: " << error.what() << "\n";
    return 1;
}
