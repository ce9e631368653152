#pragma once
// SPDX-License-Identifier: MIT
// The page of the results: what stands between its marks is written from the records, all else is left as it is.
//
//   <!-- trends table FAMILY... -->     a row for each run
//   <!-- trends rates FAMILY... -->     how the learning rates were chosen
//   <!-- trends claims FAMILY... -->    the claims about validation losses of runs of these families
//   <!-- trends measures FAMILY... -->  those about something else
//   <!-- trends curves FAMILY -->       a picture of the training losses, trends/FAMILY.svg beside the page
//   <!-- trends ends FAMILY... -->      how flat validation curves are at their ends
//   <!-- trends experts RUN -->         what the experts of a run do: pictures trends/RUN-experts.svg, typical bytes
//   <!-- trends progress -->            what is done and what is left
//
// Each is ended by <!-- end -->.

#include <functional>
#include <string>

#include "list.hpp"
#include "records.hpp"

namespace trends {

/// The learning rate of a run, empty where it is not chosen yet.
using RateOf = std::function<std::string(Run const&)>;

/// Writes the page again. Throws lm::UsageError for a mark that it does not know.
void write_page(std::string const& path, List const& list, Records const& records, RateOf const& rate_of);

}  // namespace trends
