/* A program outside the tree: compiled against the installed library only. */
#include <shardtensor/shardtensor.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    char headers[64];
    snprintf(headers, sizeof headers, "%d.%d.%d", STN_VERSION_MAJOR, STN_VERSION_MINOR, STN_VERSION_PATCH);
    printf("headers %s, library %s\n", headers, stn_version_string());
    return strcmp(headers, stn_version_string()) != 0;
}
