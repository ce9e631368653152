// Declarations for blocks of the page on GPUs.
extern view<bfloat16 const> const x, dy;
