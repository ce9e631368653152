// What blocks of the GPU's page work on.
extern view<bfloat16 const> const x, dy;
