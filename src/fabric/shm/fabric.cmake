ocm_room(fabric/shm ocm_fabric)
