#!/bin/bash
# A grid as a job array of SLURM: sbatch slurm.sh PLAN.yaml FOLDER
#
# FOLDER lies on a file system that all nodes share.
# A task that is stopped, or whose node is lost, is queued again, and takes up what it left.
#SBATCH --job-name=ktdeval-grid
#SBATCH --array=1-8
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@120
#SBATCH --output=ktdeval-grid-%A-%a.log
set -euo pipefail

plan=${1:?say: sbatch slurm.sh PLAN.yaml FOLDER}
folder=${2:?say: sbatch slurm.sh PLAN.yaml FOLDER}
shard=$((SLURM_ARRAY_TASK_ID - SLURM_ARRAY_TASK_MIN + 1))

# In place of this shell, so that SLURM's signal reaches the worker: it ends after the step under way.
exec ktdeval grid worker "$plan" --out "$folder" --shard "$shard/$SLURM_ARRAY_TASK_COUNT"
