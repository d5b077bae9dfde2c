# What the objects depend on.  Included before PGXS, which has the rules that build them.

# Objects belong to one server.  For another one, or another release, all are built again.
$(shell $(PG_CONFIG) | cmp -s - .server || $(PG_CONFIG) >.server)
$(OBJS) $(OBJS:.o=.bc): .server

# PGXS knows the headers of a source only if the server was configured for that, and
# takes files of the same name in two folders for one.
override autodepend =
override PG_CFLAGS += -MMD -MP
-include $(OBJS:.o=.d)
$(OBJS:.o=.bc): %.bc: %.o

EXTRA_CLEAN += .server $(OBJS:.o=.d)
.DEFAULT_GOAL := all
