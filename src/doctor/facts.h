/* SPDX-License-Identifier: Apache-2.0
 *
 * The facts that the doctor judges, as plain figures. They are gathered by functions that take the
 * root of the file system to read (a test's own folder, or ""), and judged by functions that look
 * at nothing else. Sizes that are unknown, and limits that are not set, are 0.
 */
#pragma once

#include "device/device.h"
#include "proc/cgroup.h"

/* The environment variables that hide devices, make processes ranks of a job, or slow them down. */
#define ENV_NAMES(X)                  \
    X(CUDA_VISIBLE_DEVICES)           \
    X(CUDA_DEVICE_ORDER)              \
    X(NVIDIA_VISIBLE_DEVICES)         \
    X(ROCR_VISIBLE_DEVICES)           \
    X(HIP_VISIBLE_DEVICES)            \
    X(CUDA_LAUNCH_BLOCKING)           \
    X(PYTORCH_NO_CUDA_MEMORY_CACHING) \
    X(OMP_NUM_THREADS)                \
    X(MKL_NUM_THREADS)                \
    X(OPENBLAS_NUM_THREADS)           \
    X(RANK)                           \
    X(LOCAL_RANK)                     \
    X(WORLD_SIZE)                     \
    X(SLURM_JOB_ID)                   \
    X(SLURM_STEP_ID)                  \
    X(SLURM_PROCID)                   \
    X(SLURM_NTASKS)                   \
    X(SLURM_GPUS_ON_NODE)

enum env_name {
#define X(name) ENV_##name,
    ENV_NAMES(X)
#undef X
    ENV_NAMES_COUNT
};

/* Borrowed; NULL where it is not set. */
struct env_facts {
    const char *at[ENV_NAMES_COUNT];
};

struct driver_facts {
    bool is_asked;           /* false: -g named devices that need no driver */
    bool is_there;           /* there are signs of NVIDIA's driver */
    bool is_amd_there;       /* there are signs of the computing part of AMD's driver */
    char said[512];          /* why a driver did not answer; "" if all did */
    char notes[512];         /* lines: why a vendor has no device though nothing failed */
    uint64_t took_ms;        /* until all devices were listed */
    char module_version[32]; /* of NVIDIA's kernel module */
    bool has_ctl, may_open_ctl, has_uvm; /* device files */
    bool has_kfd;
    bool is_container;
    size_t n_pci_nvidia, n_pci_amd; /* display controllers on the PCI bus */
};

enum {
    HOLDERS_MAX = 128
};

/* A process that has the device file of a GPU open. */
struct holder {
    pid_t pid, parent, session, parent_session; /* 0: outside of this namespace */
    uid_t uid;
    char name[32];
    char files[160]; /* "nvidia0 nvidia-uvm", as far as they fit */
    /* /dev/nvidia0 or its like is open; nvidiactl alone is open in any process that asks the
     * driver. */
    bool has_gpu_file;
    bool has_terminal;
    bool is_session_alive; /* the leader of its session is there */
    bool is_parent_init;   /* pid 1, or a user's systemd */
    bool is_service;       /* of the system, a user or a desktop, by its cgroup */
    bool is_of_muster;     /* a muster started it */
};

struct holder_facts {
    size_t n_holders;
    struct holder at[HOLDERS_MAX];
    size_t n_more;
    size_t n_closed; /* processes that we may not look into */
};

struct host_facts {
    uint64_t mem_total_bytes, mem_available_bytes;
    bool has_shm;
    uint64_t shm_bytes, shm_free_bytes;
    uint64_t open_files, open_files_hard; /* UINT64_MAX: no limit, here and below */
    uint64_t memlock_bytes, address_space_bytes, file_size_bytes;
    bool has_infiniband;
    unsigned cpus_online, cpus_allowed;
    int64_t wall_ms;
};

struct folder_facts {
    char path[512];     /* the folder for runs */
    char existing[512]; /* `path`, or its nearest parent that is there */
    int sys;            /* errno of the step that failed; `failed` names the step */
    char failed[32];
    bool is_deleted; /* `existing` is the current folder, and that was deleted */
    bool is_network;
    uint64_t size_bytes, free_bytes;
    uint64_t files, files_free;
    uint64_t written_bytes, took_ns; /* write and sync together */
    int64_t skew_ms;                 /* clock of the file system minus ours */
};

struct slurm_facts {
    bool has_sbatch, has_srun;
};

/* Packages whose versions the doctor shows. */
#define PYTHON_PACKAGES(X) \
    X(torch)               \
    X(transformers)        \
    X(vllm)                \
    X(numpy)

enum python_package {
#define X(name) PYTHON_PACKAGE_##name,
    PYTHON_PACKAGES(X)
#undef X
    PYTHON_PACKAGES_COUNT
};

/* A text is "" if there is no such thing. */
struct python_facts {
    char version[32], path[256];
    char packages[PYTHON_PACKAGES_COUNT][64];
};

struct facts {
    struct device_list machine; /* all devices, also those that the environment hides */
    struct device_list visible; /* devices that the environment leaves, with the indices for -g */
    struct device_list devices; /* those of `visible` that -g names; without -g, the machine */
    struct driver_facts driver;
    struct env_facts env;
    struct host_facts host;
    struct cgroup_facts cgroup;
    /* gathered by children; false: no answer in time */
    bool has_holders, has_folder, has_slurm, has_python;
    uint64_t deadline_ms; /* how long muster waited for them */
    struct holder_facts holders;
    struct folder_facts folder;
    struct slurm_facts slurm;
    struct python_facts python;
};
