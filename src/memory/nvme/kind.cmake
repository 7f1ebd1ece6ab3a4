ocm_room(memory/nvme ocm_memory uring)
