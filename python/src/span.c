/* Where the memory of a Python object is: addresses, buffers, and DLPack tensors. */
#include "module.h"

#include <string.h>

/* ---- DLPack, as its specification has it ---- */

struct DLDevice {
    int32_t device_type;
    int32_t device_id;
};

struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct DLTensor {
    void *data;
    struct DLDevice device;
    int32_t ndim;
    struct DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* NULL: contiguous */
    uint64_t byte_offset;
};

struct DLManagedTensor {
    struct DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
};

enum { DL_CPU = 1, DL_CUDA_HOST = 3 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

size_t py_dtype_bytes(int dtype)
{
    static const size_t bytes[] = {[MU_F32] = 4, [MU_F64] = 8, [MU_BF16] = 2, [MU_F16] = 2,
                                   [MU_I32] = 4, [MU_I64] = 8, [MU_U8] = 1};

    return dtype >= 0 && dtype <= MU_U8 ? bytes[dtype] : 0;
}

static int dtype_of_tensor(struct DLDataType type)
{
    if (type.lanes != 1) {
        return -1;
    }
    switch (type.code << 8 | type.bits) {
    case DL_FLOAT << 8 | 32:
        return MU_F32;
    case DL_FLOAT << 8 | 64:
        return MU_F64;
    case DL_FLOAT << 8 | 16:
        return MU_F16;
    case DL_BFLOAT << 8 | 16:
        return MU_BF16;
    case DL_INT << 8 | 32:
        return MU_I32;
    case DL_INT << 8 | 64:
        return MU_I64;
    case DL_UINT << 8 | 8:
        return MU_U8;
    default:
        return -1;
    }
}

static int dtype_of_format(const char *format, Py_ssize_t itemsize)
{
    if (format == NULL) {
        return MU_U8;
    }
    if (format[0] == '@' || format[0] == '=' || format[0] == '<') { /* little endian, as we are */
        format++;
    }
    if (format[0] == '\0' || format[1] != '\0') {
        return -1;
    }
    switch (format[0]) {
    case 'f':
        return MU_F32;
    case 'd':
        return MU_F64;
    case 'e':
        return MU_F16;
    case 'B':
    case 'c':
        return MU_U8;
    case 'i':
    case 'l':
    case 'q':
        return itemsize == 4 ? MU_I32 : MU_I64;
    default:
        return -1;
    }
}

static bool is_contiguous(const struct DLTensor *t)
{
    int64_t step = 1;

    if (t->strides == NULL) {
        return true;
    }
    for (int32_t i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != step) {
            return t->shape[i] == 0;
        }
        step *= t->shape[i];
    }
    return true;
}

static int check_tensor(const struct DLTensor *t, const char *what)
{
    if (t->device.device_type != DL_CPU && t->device.device_type != DL_CUDA_HOST) {
        py_error_raise_text(MU_EINVAL,
                            "%s is not in the memory of the CPU (DLPack device type %d): copy it "
                            "there; for tensors on GPUs there is muster.torch.process_group(run, "
                            "backend=\"nccl\")",
                            what, (int)t->device.device_type);
        return -1;
    }
    if (!is_contiguous(t)) {
        py_error_raise_text(MU_EINVAL, "%s is not contiguous: make it so first (x.contiguous())",
                            what);
        return -1;
    }
    return 0;
}

static int from_dlpack(struct span *s, PyObject *object, const char *what)
{
    PyObject *capsule = PyObject_CallMethod(object, "__dlpack__", NULL);
    struct DLManagedTensor *tensor;
    uint64_t elements = 1;

    if (capsule == NULL) {
        return -1;
    }
    tensor = PyCapsule_GetPointer(capsule, "dltensor");
    if (tensor == NULL || check_tensor(&tensor->dl_tensor, what) < 0) {
        Py_DECREF(capsule); /* It deletes the tensor itself as long as it has its name. */
        return -1;
    }
    (void)PyCapsule_SetName(capsule, "used_dltensor");
    Py_DECREF(capsule);
    for (int32_t i = 0; i < tensor->dl_tensor.ndim; i++) {
        elements *= (uint64_t)tensor->dl_tensor.shape[i];
    }
    s->tensor = tensor;
    s->data = (char *)tensor->dl_tensor.data + tensor->dl_tensor.byte_offset;
    s->bytes =
        elements * ((size_t)tensor->dl_tensor.dtype.bits * tensor->dl_tensor.dtype.lanes / 8);
    s->dtype = dtype_of_tensor(tensor->dl_tensor.dtype);
    return 0;
}

static int from_buffer(struct span *s, PyObject *object, bool writable)
{
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);

    if (PyObject_GetBuffer(object, &s->view, flags) < 0) {
        return -1;
    }
    s->has_view = true;
    s->data = s->view.buf;
    s->bytes = (size_t)s->view.len;
    s->dtype = dtype_of_format(s->view.format, s->view.itemsize);
    return 0;
}

static int from_pair(struct span *s, PyObject *object, const char *what)
{
    unsigned long long address, bytes;

    if (PyTuple_Size(object) != 2) {
        PyErr_Format(PyExc_TypeError, "%s: a tuple is (address, bytes)", what);
        return -1;
    }
    address = PyLong_AsUnsignedLongLong(PyTuple_GetItem(object, 0));
    bytes = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(PyTuple_GetItem(object, 1));
    if (PyErr_Occurred()) {
        return -1;
    }
    s->data = (void *)(uintptr_t)address;
    s->bytes = bytes;
    return 0;
}

int py_span_get(struct span *s, PyObject *object, bool writable, const char *what)
{
    *s = (struct span){.dtype = -1};
    if (object == NULL || object == Py_None) {
        return 0;
    }
    if (PyLong_Check(object)) {
        s->data = PyLong_AsVoidPtr(object);
        s->bytes = SIZE_MAX;
        return PyErr_Occurred() ? -1 : 0;
    }
    if (PyTuple_Check(object)) {
        return from_pair(s, object, what);
    }
    if (PyObject_CheckBuffer(object)) {
        return from_buffer(s, object, writable);
    }
    if (PyObject_HasAttrString(object, "__dlpack__")) {
        return from_dlpack(s, object, what);
    }
    PyErr_Format(PyExc_TypeError,
                 "%s: not %R, but something with memory: a buffer (bytearray, array, a numpy "
                 "array), or a tensor with __dlpack__",
                 what, Py_TYPE(object));
    return -1;
}

void py_span_release(struct span *s)
{
    if (s->has_view) {
        PyBuffer_Release(&s->view);
    }
    if (s->tensor != NULL && s->tensor->deleter != NULL) {
        s->tensor->deleter(s->tensor);
    }
    *s = (struct span){.dtype = -1};
}
