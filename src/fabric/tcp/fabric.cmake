ocm_room(fabric/tcp ocm_fabric OpenSSL::SSL)
