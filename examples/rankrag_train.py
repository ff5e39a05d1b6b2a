"""Train a chat model on the examples of `mcranker rankrag`; only the replies are learned.

pip install '.[eval]' peft trl
mcranker rankrag recipe.toml --out data
python examples/rankrag_train.py data/stage2.jsonl meta-llama/Llama-3.1-8B-Instruct rankrag-8b \
    --lora 16 --at-once 2
vllm serve rankrag-8b
mcranker ask "…" --preset rankrag --model openai:rankrag-8b \
    --base-url http://localhost:8000/v1 --index papers.index

For several processes start it by `accelerate launch`.
"""

from __future__ import annotations

import argparse

import torch
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

# The paper's, for 8 billion weights; for 70 billion it takes 2e-7 in stage 2.
STAGES = {
    1: {"batch": 128, "steps": 1_000, "learning_rate": 5e-6},
    2: {"batch": 64, "steps": 3_300, "learning_rate": 3e-7},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="JSONL of examples")
    parser.add_argument("model", help="folder or hub name of a chat model")
    parser.add_argument("out", help="folder for the trained model")
    parser.add_argument("--stage", type=int, choices=STAGES, default=2, help="whose values hold")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int, help="examples a step")
    parser.add_argument("--at-once", type=int, default=1, help="of them in memory; divides --batch")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--max-tokens", type=int, default=4096, help="of an example")
    parser.add_argument("--lora", type=int, default=0, help="rank; 0 trains all weights")
    given = parser.parse_args()
    of = {name: getattr(given, name) or usual for name, usual in STAGES[given.stage].items()}
    if of["batch"] % given.at_once:
        parser.error(f"--at-once {given.at_once} must divide --batch {of['batch']}")

    data = load_dataset("json", data_files=given.data, split="train")
    lora = None
    if given.lora:
        lora = LoraConfig(r=given.lora, lora_alpha=2 * given.lora, target_modules="all-linear")
    trainer = SFTTrainer(
        model=given.model,
        train_dataset=data.select_columns(["prompt", "completion"]),
        peft_config=lora,
        args=SFTConfig(
            output_dir=given.out,
            max_steps=of["steps"],
            learning_rate=of["learning_rate"],
            per_device_train_batch_size=given.at_once,
            gradient_accumulation_steps=of["batch"] // given.at_once,
            max_length=given.max_tokens,
            completion_only_loss=True,
            adam_beta1=0.9,
            adam_beta2=0.98,
            bf16=torch.cuda.is_available() and torch.cuda.is_bf16_supported(),
            logging_steps=max(1, of["steps"] // 100),
            save_strategy="no",
            report_to=[],
        ),
    )
    trainer.train()
    if lora is not None:
        trainer.model = trainer.model.merge_and_unload()  # a server needs no adapter then
    trainer.save_model(given.out)
    trainer.processing_class.save_pretrained(given.out)
    losses = [each["loss"] for each in trainer.state.log_history if "loss" in each]
    print(f"{given.out}: loss {losses[0]:.3f} at first, {losses[-1]:.3f} at last")


if __name__ == "__main__":
    main()
