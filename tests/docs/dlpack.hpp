// Declarations for the pages' blocks about DLPack: the structs of dlpack.h 1.x, and tensors of another library.
struct DLTensor {
  void* data;
  struct {
    int device_type, device_id;
  } device;
  int ndim;
  struct {
    unsigned char code, bits;
    unsigned short lanes;
  } dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensorVersioned {
  struct {
    std::uint32_t major, minor;
  } version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
extern DLManagedTensorVersioned* const activations;
extern DLTensor const weights_of_experts;
void give_to_the_other_library(DLManagedTensorVersioned*);
