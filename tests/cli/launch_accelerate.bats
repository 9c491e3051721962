#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# accelerate launch's options in muster launch. What ranks get is compared with accelerate itself in tests/launch_lines.
load helpers

setup() {
    common_setup
    export MUSTER_NVML=$FAKE_NVML MUSTER_FAKE_NVML=gpus=4 MUSTER_SYSFS=/nowhere TMPDIR=$PWD/tmp
    unset PYTHON_EXEC ${!PET_@} ${!ACCELERATE_@} OMP_NUM_THREADS
    mkdir tmp
    worker shows <<'END'
#!/bin/sh
echo "$RANK/$WORLD_SIZE" $(for name; do printenv $name || echo -; done)
END
}

launch() { run --separate-stderr limited "$MUSTER" launch --no_python "$@"; }
ranks_are() { [ "$(sort <<<"$output")" = "$1" ]; }
is_said() { [ "$stderr" = "muster: $1" ]; }

@test "each option says in one line what it becomes, unless -q" {
    launch --multi_gpu --num_processes 2 --num_machines 1 --machine_rank 0 --mixed_precision bf16 --gpu_ids 3,1 \
        --num_cpu_threads_per_process 5 --dynamo_backend inductor --debug ./shows CUDA_VISIBLE_DEVICES ACCELERATE_MIXED_PRECISION \
        ACCELERATE_DYNAMO_BACKEND ACCELERATE_DYNAMO_MODE OMP_NUM_THREADS ACCELERATE_DEBUG_MODE ACCELERATE_USE_CPU
    ended_with 0
    ranks_are $'0/2 3,1 bf16 INDUCTOR default 5 true -\n1/2 3,1 bf16 INDUCTOR default 5 true -'
    is_said "--num_machines is --nnodes 1; --machine_rank is --node-rank 0; --gpu_ids is --gpus 3,1; --num_cpu_threads_per_process is --threads 5; --mixed_precision is --env ACCELERATE_MIXED_PRECISION=bf16; --dynamo_backend is --env ACCELERATE_DYNAMO_BACKEND=INDUCTOR; --debug is --env ACCELERATE_DEBUG_MODE=true; --num_processes is --nproc-per-node 2"
    launch -q --num-processes 1 ./shows
    ended_with 0
    [ "$stderr" = "" ]
    launch --quiet --num-processes 1 sh -c 'exit 3'
    ended_with 3
    [[ $stderr == *"rank 0 (pid "*") failed first: status 3"* ]]
    launch --num-processes=2 --env ACCELERATE_MIXED_PRECISION=fp16 ./shows ACCELERATE_MIXED_PRECISION OMP_NUM_THREADS
    ranks_are $'0/2 fp16 1\n1/2 fp16 1'
    launch --gradient_accumulation_steps 4 --same_network --num_processes 1 ./shows
    is_said "--gradient_accumulation_steps has no effect without --use_deepspeed; --num_processes is --nproc-per-node 1"
}

@test "without a number there is a rank for each GPU, of those that are named, and the script's arguments are its own" {
    launch --mixed_precision fp16 ./shows ACCELERATE_MIXED_PRECISION
    ended_with 0
    ranks_are $'0/4 fp16\n1/4 fp16\n2/4 fp16\n3/4 fp16'
    [[ $stderr == *"without --num_processes, there is --nproc-per-node gpu" ]]
    launch --num_processes 1 echo --num_processes 2
    [ "$output" = "--num_processes 2" ]
    launch --gpu_ids 1,2 ./shows CUDA_VISIBLE_DEVICES
    ranks_are $'0/2 1,2\n1/2 1,2'
    launch --gpu_ids all --multi_gpu ./shows
    ranks_are $'0/4\n1/4\n2/4\n3/4'
    launch --hosts one=0,two=2 --via env --mixed_precision no ./shows ACCELERATE_MIXED_PRECISION
    ranks_are $'0/2 no\n1/2 no'
    MUSTER_FAKE_NVML=gpus=0 launch --multi_gpu ./shows
    ended_with 69
}

# As accelerate config writes it, with what it leaves empty.
config_write() {
    cat >config.yaml <<'END'
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: MULTI_GPU
downcast_bf16: 'no'
dynamo_config:
  dynamo_backend: INDUCTOR
  dynamo_use_dynamic: true
enable_cpu_affinity: false
fsdp_config: {}
gpu_ids: 1,3
machine_rank: 0
main_process_ip: null
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
END
}

@test "--config_file: the entries that accelerate config writes are options, which come after those that are typed" {
    config_write
    launch --config_file config.yaml ./shows CUDA_VISIBLE_DEVICES ACCELERATE_MIXED_PRECISION ACCELERATE_DYNAMO_BACKEND \
        ACCELERATE_DYNAMO_USE_DYNAMIC ACCELERATE_USE_CPU
    ended_with 0
    ranks_are $'0/2 1,3 bf16 INDUCTOR True -\n1/2 1,3 bf16 INDUCTOR True -'
    is_said "--gpu_ids is --gpus 1,3; --mixed_precision is --env ACCELERATE_MIXED_PRECISION=bf16; --dynamo_backend is --env ACCELERATE_DYNAMO_BACKEND=INDUCTOR; --dynamo_use_dynamic is --env ACCELERATE_DYNAMO_USE_DYNAMIC=True; --num_processes is --nproc-per-node 2"
    launch --mixed_precision fp16 --config_file config.yaml --num_processes 1 --gpu_ids 0 ./shows CUDA_VISIBLE_DEVICES \
        ACCELERATE_MIXED_PRECISION
    ranks_are "0/1 0 fp16"
    launch --config_file config.yaml --nproc-per-node 3 -g 0-2 --cpu ./shows CUDA_VISIBLE_DEVICES ACCELERATE_USE_CPU
    ranks_are $'0/3 0,1,2 True\n1/3 0,1,2 True\n2/3 0,1,2 True'
    launch --config_file config.yaml --hosts one=0,two=2 --via env ./shows
    ended_with 2
    [[ $stderr == *"cannot be used with --hosts; use --nproc-per-node, the number on each machine"* ]]
    launch --config_file config.yaml --hosts one=0,two=2 --via env --nproc-per-node 1 ./shows ACCELERATE_MIXED_PRECISION
    ranks_are $'0/2 bf16\n1/2 bf16'
    echo '{"distributed_type": "MULTI_CPU", "num_processes": 3, "use_cpu": true, "main_process_port": 0}' >config.json
    launch -q --config_file config.json ./shows ACCELERATE_USE_CPU
    ranks_are $'0/3 True\n1/3 True\n2/3 True'
    sed 's/^num_machines: 1/num_machines: 2/; s/^main_process_ip: .*/main_process_ip: nowhere.invalid/; s/^machine_rank: .*/machine_rank: 1/' config.yaml >two.yaml
    launch --config_file two.yaml --rdzv_conf join_timeout=1 ./shows
    [[ $stderr == *"nowhere.invalid"* ]]
    [ "$status" -gt 0 ]
    launch -q --config_file two.yaml --num_machines 1 --num_processes 1 ./shows
    ranks_are "0/1"
    printf '%s\n' 'distributed_type: MULTI_GPU' 'fp16: true' 'num_processes: -1' 'ipex_config: {ipex: false}' 'dynamo_backend: "NO"' >old.yaml
    launch -q --config_file old.yaml ./shows ACCELERATE_MIXED_PRECISION
    ranks_are $'0/4 fp16\n1/4 fp16\n2/4 fp16\n3/4 fp16'
}

@test "--config_file: what cannot be taken is refused, and starts nothing" {
    local entry words
    config_write
    while IFS='|' read -r entry words; do
        awk -v key="${entry%%:*}:" '/^[^ ]/ { is_it = $1 == key } !is_it' config.yaml >bad.yaml
        echo "$entry" >>bad.yaml
        launch --config_file bad.yaml sh -c 'echo >>ran'
        ended_with 2
        if [[ $stderr != *"$words"* ]]; then
            echo "$entry: $stderr"
            return 1
        fi
    done <<'END'
parallelism_config: {a: 2}|bad.yaml:23:21: parallelism_config: muster launch starts the ranks and leaves this to the script
fsdp_config: [1]|fsdp_config: expected a mapping, found a list
fsdp_config: {version: [2]}|fsdp_version: expected a text, found a list
fsdp_config: {version: 3}|--fsdp_version: 3 is not between 1 and 2
deepspeed_config: {zero_stage: three}|--zero_stage: expected a whole number, found 'three'
megatron_lm_config: {megatron_lm_tp_degree: 0}|--megatron_lm_tp_degree: 0 is too small, the least is 1
megatron_lm_config: {megatron_lm_eod_mask_loss: maybe}|--megatron_lm_eod_mask_loss: expected true or false, found 'maybe'
fp8_config: {backend: MS-AMP}|--fp8_backend: expected te, ao or msamp, found 'MS-AMP'
fp8_config: {override_linear_precision: [true]}|--fp8_override_linear_precision: expected true or false for fprop, dgrad and wgrad
fp8_config: {override_linear_precision: {a: 1}}|fp8_override_linear_precision: expected three of true and false, found a mapping
fp8_config: {use_autocast_during_eval: maybe}|fp8_use_autocast_during_eval: expected true or false, found 'maybe'
fp8_config: {margin: [1]}|fp8_margin: expected a text, found a list
distributed_type: MULTI_TPU|distributed_type: expected NO, MULTI_GPU, MULTI_CPU, FSDP, DEEPSPEED or MEGATRON_LM, found MULTI_TPU
compute_environment: AMAZON_SAGEMAKER|expected LOCAL_MACHINE, found AMAZON_SAGEMAKER
num_procesess: 2|bad.yaml:23:1: accelerate has no entry 'num_procesess' (did you mean 'num_processes'?)
num_processes: many|--num-processes: 
num_processes: [1, 2]|num_processes: expected a text, found a list
dynamo_config: inductor|dynamo_config: expected a mapping, found a text
dynamo_config: {backend: inductor}|accelerate has no entry 'backend'
use_cpu: maybe|use_cpu: expected true or false, found 'maybe'
a: [|bad.yaml:
END
    echo 3 >bad.yaml
    launch --config_file bad.yaml sh -c 'echo >>ran'
    [[ $stderr == *"expected entries of accelerate, as num_processes: 8, found a text"* ]]
    [ ! -e ran ]
}

# What becomes of them all is compared with accelerate in tests/launch_lines/plugins.py.
@test "FSDP and DeepSpeed: what is handed over, and what has no effect, is said; other hosts are told too" {
    launch --use_fsdp --num_processes 1 --fsdp_version 2 --zero_stage 1 ./shows ACCELERATE_USE_FSDP FSDP_VERSION FSDP_USE_ORIG_PARAMS \
        ACCELERATE_DEEPSPEED_ZERO_STAGE
    ended_with 0
    ranks_are "0/1 true 2 true -"
    is_said "--use_fsdp is --env ACCELERATE_USE_FSDP=true; --fsdp_version is --env FSDP_VERSION=2; --zero_stage has no effect without --use_deepspeed; --num_processes is --nproc-per-node 1"
    echo '{"distributed_type": "DEEPSPEED", "num_processes": -1, "deepspeed_config": {"zero_stage": 2, "zero_stag": 1}}' >ds.json
    PYTHONPATH=/here launch --config_file ds.json --hosts one=0,two=2 --via env --env FSDP_VERSION=2 ./shows \
        ACCELERATE_DEEPSPEED_ZERO_STAGE ACCELERATE_CONFIG_DS_FIELDS FSDP_VERSION
    ranks_are $'0/2 2 zero_stage,zero_stag 2\n1/2 2 zero_stage,zero_stag 2'
    [[ $stderr == *"zero_stag has no effect: accelerate has no such option"* && $stderr != *PYTHONPATH* ]]
    launch -q --config_file ds.json --use_fsdp --num_processes 1 ./shows ACCELERATE_USE_FSDP ACCELERATE_USE_DEEPSPEED
    ranks_are "0/1 true -"
}

@test "Megatron-LM and fp8: what is handed over is said as it was read, and what has no effect" {
    launch --use_megatron_lm --num_processes 1 --megatron_lm_tp_degree +2 --megatron_lm_no_load_optim false ./shows \
        ACCELERATE_USE_MEGATRON_LM MEGATRON_LM_TP_DEGREE MEGATRON_LM_NO_LOAD_OPTIM
    ended_with 0
    ranks_are "0/1 true 2 True"
    is_said "--use_megatron_lm is --env ACCELERATE_USE_MEGATRON_LM=true; --megatron_lm_tp_degree is --env MEGATRON_LM_TP_DEGREE=2; --megatron_lm_no_load_optim is --env MEGATRON_LM_NO_LOAD_OPTIM=True; --num_processes is --nproc-per-node 1"
    launch --mixed_precision fp8 --num_processes 1 --fp8_backend te --fp8_override_linear_precision yes,no,no ./shows \
        ACCELERATE_MIXED_PRECISION ACCELERATE_FP8_OVERRIDE_FPROP ACCELERATE_FP8_OVERRIDE_WGRAD ACCELERATE_FP8_MARGIN
    ranks_are "0/1 fp8 1 0 0"
    is_said "--mixed_precision is --env ACCELERATE_MIXED_PRECISION=fp8; --fp8_backend is --env ACCELERATE_FP8_BACKEND=te; --fp8_override_linear_precision is --env ACCELERATE_FP8_OVERRIDE_FPROP=1; --fp8_override_linear_precision is --env ACCELERATE_FP8_OVERRIDE_DGRAD=0; --fp8_override_linear_precision is --env ACCELERATE_FP8_OVERRIDE_WGRAD=0; --num_processes is --nproc-per-node 1"
    launch --num_processes 1 --megatron_lm_pp_degree 2 --fp8_margin 2 --fp8_use_autocast_during_eval ./shows MEGATRON_LM_PP_DEGREE ACCELERATE_FP8_MARGIN
    ranks_are "0/1 - -"
    is_said "--megatron_lm_pp_degree has no effect without --use_megatron_lm; --fp8_margin, --fp8_use_autocast_during_eval have no effect without --mixed_precision fp8; --num_processes is --nproc-per-node 1"
    # As the documents of accelerate have it, where its own launcher takes the letters of this text.
    printf '%s\n' 'distributed_type: MULTI_GPU' 'num_processes: 1' 'mixed_precision: fp8' \
        'fp8_config: {override_linear_precision: "(true, false, false)"}' >fp8.yaml
    launch -q --config_file fp8.yaml ./shows ACCELERATE_FP8_OVERRIDE_FPROP ACCELERATE_FP8_OVERRIDE_DGRAD ACCELERATE_FP8_OVERRIDE_WGRAD
    ranks_are "0/1 true false false"
}

@test "--cpu: one rank, or as many as are named, and the cores are shared out among them" {
    export HWLOC_SYNTHETIC="pack:1 numa:1 core:6 pu:2"
    launch --cpu ./shows ACCELERATE_USE_CPU OMP_NUM_THREADS
    ended_with 0
    ranks_are "0/1 True 6"
    launch --cpu --num_processes 2 ./shows ACCELERATE_USE_CPU OMP_NUM_THREADS
    ranks_are $'0/2 True 3\n1/2 True 3'
    OMP_NUM_THREADS=4 launch --cpu --num_processes 2 ./shows OMP_NUM_THREADS
    ranks_are $'0/2 4\n1/2 4'
}

@test "--num_processes counts the ranks of all machines, started by hand or as tasks" {
    local n place PIDS=()
    place="--num_processes 4 --num_machines 2 --main_process_ip 127.0.0.1 --main_process_port $(free_port)"
    for n in 0 1; do
        limited "$MUSTER" launch --no_python $place --machine_rank $n ./shows LOCAL_RANK GROUP_RANK >out.$n 2>said.$n 3>&- 4>&- &
        PIDS+=($!)
    done
    wait "${PIDS[@]}"
    [ "$(sort out.0 out.1)" = $'0/4 0 0\n1/4 1 0\n2/4 0 1\n3/4 1 1' ]
    grep -q -- '--num_processes is --nproc-per-node 2' said.1
    export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29497
    launch --num_processes 4 ./shows
    ended_with 2
    [[ $stderr == *"--num_processes 4: there are 2 tasks, each of which is one rank"* ]]
}

@test "what cannot be is refused, with what to do" {
    local words said
    while IFS='|' read -r words said; do
        launch $words ./shows
        ended_with 2
        [ "$output" = "" ]
        [[ $stderr == *"$said"* ]]
    done <<'END'
--num_processes 3 --num_machines 2 --main_process_ip 127.0.0.1|--num_processes 3 cannot be divided evenly among 2 machines; use --nproc-per-node
--num_processes 4 --nnodes 1:2 --rdzv_backend c10d --rdzv_endpoint localhost:29496|with --nnodes 1:2 it is not known how many there are; use --nproc-per-node
--num_processes 2 --hosts one --via env|--num_processes, the number of ranks on all machines, cannot be used with --hosts; use --nproc-per-node
--num_machines 2 --hosts one --via env|--num_machines and --hosts exclude each other
--num_machines 2 --num_processes 2|--main_process_ip is needed
--num_machines 2 --main_process_ip ::1 --main_process_port 0|need a port that all of them know
--num_processes 2 --nproc-per-node 2|--num_processes and --nproc-per-node exclude each other
--gpu_ids 1 -g 2|--gpu_ids and --gpus exclude each other
--gpu_ids a,b|--gpu-ids: 
--cpu --multi_gpu|--cpu and --multi_gpu exclude each other
--num_processes 0|--num-processes
--mixed_precision fp32|--mixed_precision 'fp32': expected no, fp16, bf16 or fp8
--fp8_backend best|--fp8_backend: expected te, ao or msamp, found 'best'
--fp8_override_linear_precision true|expected true or false for fprop, dgrad and wgrad, as true,false,false, found 'true'
--fp8_pad_inner_dim perhaps|--fp8_pad_inner_dim: expected true or false, found 'perhaps'
--dynamo_mode fast|expected default, reduce-overhead or max-autotune
--dynamo_backend a,b|--dynamo_backend 'a,b': expected a name
--config_file no.yaml|--config_file: open no.yaml: No such file or directory
--use_deepspeed --use_fsdp|--use_fsdp and --use_deepspeed exclude each other
--use_fsdp --multi_gpu|--multi_gpu and --use_fsdp exclude each other
--use_deepspeed --cpu|--cpu and --use_deepspeed exclude each other
--use_fsdp --fsdp_version 3|--fsdp_version: 3 is not between 1 and 2
--use_deepspeed --gradient_clipping much|--gradient_clipping: expected a number, found 'much'
--use_deepspeed --deepspeed_multinode_launcher pdsh --num_machines 2 --main_process_ip ::1|--deepspeed_multinode_launcher pdsh: expected standard
--fsdp_version_ 1|unknown option '--fsdp_version_' (did you mean '--fsdp-version'?)
--use_megatron_lm --use_deepspeed|--use_megatron_lm and --use_deepspeed exclude each other
--use_megatron_lm --cpu|--cpu and --use_megatron_lm exclude each other
--megatron_lm_tp_degree 2.5|--megatron_lm_tp_degree: expected a whole number, found '2.5'
--use-parallelism-config|Accelerator(parallelism_config=...)
--tpu|there are no ranks for TPUs
--mpirun_hostfile f|--hosts names the machines
--num_proc 2|unknown option '--num_proc'
END
}

@test "help: each option of accelerate says by itself what it does" {
    launch --help
    ended_with 0
    local words
    words=$(tr -s ' \n' ' ' <<<"$output")
    [[ $words == *"--offload-param-nvme-path VALUE has no effect, as with accelerate"* ]]
}

@test "no variable and no beginning of a name stands for an option of accelerate" {
    MUSTER_NUM_PROCESSES=3 PET_CPU=1 MUSTER_DEBUG=1 launch ./shows ACCELERATE_MIXED_PRECISION ACCELERATE_USE_CPU
    ended_with 0
    [ "$output" = "0/1 - -" ]
    [ "$stderr" = "" ]
    launch --nu node ./shows # --numa-binding, as with torchrun
    [[ $stderr != *"may be"* ]]
}
