// Scratch memory of kernels as tensors of a schedule, so that the memory plan packs it, the peak
// counts it and the race check sees it.
#pragma once

#include <functional>
#include <span>

#include "harness/arenas.h"
#include "harness/schedule.h"

namespace spillway {

inline constexpr int64_t workspace_alignment = 256;  // bytes; what cuBLAS asks for

using WorkspaceBytes = std::function<int64_t(const Program&, const Op&)>;

// Gives every op that wants scratch memory a local tensor (role workspace) that lives at its own
// position of the compute lane. Throws std::logic_error where an op of another lane wants some.
Schedule with_workspaces(Schedule schedule, const WorkspaceBytes& bytes);

// Where the scratch memory of a step lies, aligned, as many bytes as its op wanted; empty if none.
std::span<std::byte> workspace_of(const LaneStep& step, const Op& op, const Arenas& arenas);

}  // namespace spillway
