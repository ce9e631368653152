// SPDX-License-Identifier: MIT
#include "units.hpp"

void launch_in_another_unit(headmix::Sm80::queue const& queue) { queue.launch(wide_kernel{nullptr}, 2); }
