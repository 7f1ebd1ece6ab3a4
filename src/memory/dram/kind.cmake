ocm_room(memory/dram ocm_memory)
