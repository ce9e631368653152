// SPDX-License-Identifier: MIT
#include "quality.hpp"

#include <Eigen/Dense>

namespace diffusion {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix square_root(Matrix const& symmetric) {
  Eigen::SelfAdjointEigenSolver<Matrix> const e(symmetric);
  return e.eigenvectors() * e.eigenvalues().cwiseMax(0).cwiseSqrt().asDiagonal() * e.eigenvectors().transpose();
}

struct Normal {
  Eigen::RowVectorXd mean;
  Matrix covariance;

  Normal(std::span<float const> points, Index dimensions) {
    auto const n = static_cast<Index>(points.size()) / dimensions;
    using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Matrix all = Eigen::Map<Rows const>(points.data(), n, dimensions).cast<double>();
    mean = all.colwise().mean();
    all.rowwise() -= mean;
    covariance = all.transpose() * all / static_cast<double>(n - 1);
  }
};

}  // namespace

double frechet_distance(std::span<float const> a, std::span<float const> b, Index dimensions) {
  Normal const p(a, dimensions), q(b, dimensions);
  // (C_1 C_2)^(1/2) has the trace of (R C_2 R)^(1/2), R = C_1^(1/2), which is symmetric.
  Matrix const r = square_root(p.covariance), both = r * q.covariance * r;
  Eigen::SelfAdjointEigenSolver<Matrix> const e(both, Eigen::EigenvaluesOnly);
  return (p.mean - q.mean).squaredNorm() + p.covariance.trace() + q.covariance.trace() -
         2 * e.eigenvalues().cwiseMax(0).cwiseSqrt().sum();
}

double nearest_agreement(std::span<float const> points, std::span<Int const> labels, std::span<float const> known,
                         std::span<Int const> known_labels) {
  auto const d = static_cast<Index>(points.size() / labels.size());
  using Vector = Eigen::Map<Eigen::VectorXf const>;
  Index agreed = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Vector const x(points.data() + static_cast<Index>(i) * d, d);
    std::size_t nearest = 0;
    float least = 0;
    for (std::size_t k = 0; k < known_labels.size(); ++k) {
      float const distance = (x - Vector(known.data() + static_cast<Index>(k) * d, d)).squaredNorm();
      if (k == 0 || distance < least) nearest = k, least = distance;
    }
    if (known_labels[nearest] == labels[i]) ++agreed;
  }
  return static_cast<double>(agreed) / static_cast<double>(labels.size());
}

}  // namespace diffusion
