// What a report says in sentences: plain text, shared by Markdown and HTML.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reports/figures.h"

namespace spillway {

// "Simulated: llama3.1-405b on 128 x gb200-nvl72, micro batch 2, sequence 8192".
std::string title_of(const Group& group);

// The result in one or two sentences, one per group that has something to say.
std::vector<std::string> headline(const std::vector<Group>& groups);

// What a reader must know beside a group's tables: the fitted figure, the published order, step
// time against remat with its spread, how the link rate came about, why reads are exposed under LHS
// alone, what did not fit and why.
std::vector<std::string> notes_on(const Group& group);

// "QKV offload, LHS off - QKV offload + LHS" and the like.
std::string name_of(const Difference& difference);
// Ours over published: 1.00 is the published effect, a negative sign the opposite one.
std::string effect_text(const Difference& difference);

struct StatedHypothesis {
  std::string id, setting, status, text;
};
// Of all sweeps among the rows, each once.
std::vector<StatedHypothesis> hypotheses_of(const std::vector<Row>& rows);

// The row's config as a `spillway run` command line.
std::string command_of(const Row& row);

// Name and value of everything known about where rows were obtained; each distinct environment
// once.
using Environment = std::vector<std::pair<std::string, std::string>>;
std::vector<Environment> environments_of(const std::vector<Row>& rows);

// How to read the figures, whatever the rows.
std::vector<std::pair<std::string, std::string>> method_notes();

}  // namespace spillway
