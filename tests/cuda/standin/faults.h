#ifndef STANDIN_FAULTS_H
#define STANDIN_FAULTS_H

namespace standin {

/* From now on a fault in device or shared memory ends the program with a text that says whose fault it was. */
void explain_faults();

}

#endif
