// SPDX-License-Identifier: MIT
// The tests of divided layers on the ranks of mpirun: each rank runs all tests, rank 0 prints.
#define DOCTEST_CONFIG_IMPLEMENT
#include "../check_on_ranks.hpp"

int main(int argc, char** argv) {
  return headmix::run_mpi(&argc, &argv, [&](headmix::Mpi& ranks) {
    on_ranks::program_ranks = &ranks;
    doctest::Context context(argc, argv);
    if (ranks.rank() != 0) context.setOption("minimal", true);
    return context.run();
  });
}
